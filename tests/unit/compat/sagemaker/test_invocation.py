"""JSON, JSON lines and CSV become TensorFlow Serving's JSON."""

import contextlib
import json
import time

import pytest

from ie_serving.compat.sagemaker.bodies import CSV, JSON, JSON_LINES, body_of
from ie_serving.core.values.errors import InvalidRequest
from tests.tables import named_by

LINES = JSON_LINES[0]


@named_by(
    "body",
    ("kind", "body", "instances"),
    [
        (JSON, "[1, 2]", [[1, 2]]),
        (JSON, "[[1], [2]]", [[1], [2]]),
        (JSON, " [ [1],\n [2]]", [[1], [2]]),
        (JSON, "5", [5]),
        (JSON, '{"x": 1}', [{"x": 1}]),
        (JSON, '{"x": 1}\n{"x": 2}\n', [{"x": 1}, {"x": 2}]),
        (LINES, "[1]\r\n\r\n[2]\n", [[1], [2]]),
        (LINES, "1\n2", [1, 2]),
        (CSV, "1,2\n3,4\n", [[1, 2], [3, 4]]),
        (CSV, "1\n2.5\r\n-3e2", [1, 2.5, -300.0]),
        (CSV, "1", [1]),
        (CSV, " 1 , +2 , .5 , 1. ", [[1, 2.0, 0.5, 1.0]]),
        (CSV, "a,1\nb c,2", [["a", 1], ["b c", 2]]),
        (CSV, '"1","a ""b"", c",\n', [["1", 'a "b", c', ""]]),
        (CSV, '"one column, with a comma"', ["one column, with a comma"]),
        (CSV, "1_000,0x10,--1", [["1_000", "0x10", "--1"]]),
    ],
)
def test_bodies_become_instances(kind: bytes, body: str, instances: list[object]) -> None:
    assert json.loads(body_of(kind, body.encode())) == {"instances": instances}


@pytest.mark.parametrize("kind", [JSON, LINES])
@pytest.mark.parametrize("body", [b'{"instances": [1]}', b'{"signature_name": "s",\n"inputs" : 1}'])
def test_a_body_of_tensorflow_serving_is_passed_on_as_it_is(kind: bytes, body: bytes) -> None:
    assert body_of(kind, body) == body


def test_numbers_that_json_lacks_are_passed_on() -> None:
    assert body_of(CSV, b"nan,-inf") == b'{"instances":[[NaN,-Infinity]]}'


@pytest.mark.parametrize("body", [b"", b"\n \n", b'a"b', b'"a" b', b'"a', b"\xff"])
def test_a_body_that_is_no_csv_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the CSV"):
        body_of(CSV, body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(CSV, b" " * 200_000 + b'a"', id="blanks before a quotation mark"),
        pytest.param(CSV, b'"' * 200_001, id="quotation marks"),
        pytest.param(CSV, b"," * 100_000, id="commas"),
        pytest.param(JSON, b"]" + b"\n" * 200_000 + b"x", id="lines behind a bracket"),
        pytest.param(JSON, b'"inputs"' + b" " * 200_000, id="blanks behind a key"),
    ],
)
def test_no_body_takes_longer_than_in_proportion(kind: bytes, body: bytes) -> None:
    began = time.process_time()
    with contextlib.suppress(InvalidRequest):
        body_of(kind, body)
    assert time.process_time() - began < 2.0
