"""JSON for signatures that take any inputs."""

from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Signature, TensorSpec
from ie_serving.wire.json.request import parse_predict
from tests.tables import named_by

BEHIND = {"x": TensorSpec("x", DataType.FP32, (-1, 2), "x:0")}
ANY = Signature(SERVING_DEFAULT, {}, {}, is_open=True, behind=BEHIND)


@named_by(
    "body",
    ("body", "expected"),
    [
        (b'{"inputs": {"x": [1, 2]}}', {"x": np.float32([1, 2])}),
        (b'{"inputs": [[1, 2]]}', {"x": np.float32([[1, 2]])}),
        (b'{"instances": [[1, 2], [3, 4]]}', {"x": np.float32([[1, 2], [3, 4]])}),
        (b'{"instances": [{"a": 1, "b": 0.5}]}', {"a": np.int64([1]), "b": np.float32([0.5])}),
        (b'{"inputs": {"a": 7, "b": true}}', {"a": np.int64(7), "b": np.bool_(True)}),
        (b'{"inputs": {"x": "five"}}', {"x": np.array(b"five", object)}),
        (b'{"inputs": {"x": [{"b64": "/w=="}]}}', {"x": np.array([b"\xff"], object)}),
        (b'{"inputs": {"a": []}}', {"a": np.float32([])}),
    ],
)
def test_values_say_what_they_are(body: bytes, expected: dict[str, Any]) -> None:
    found, _ = parse_predict(body).decode(ANY)
    assert {n: (a.dtype, a.tolist()) for n, a in found.items()} == {
        n: (a.dtype, a.tolist()) for n, a in expected.items()
    }


@named_by(
    "body",
    ("body", "text"),
    [
        (b'{"inputs": {"a": [[1], [2, 3]]}}', "Encountered list at unexpected size"),
        (b'{"inputs": {"x": 1}, "instances": [1]}', "only one of"),
        (b"{}", "Missing 'inputs' or 'instances' key"),
        (b'{"instances": []}', "No values in 'instances' array"),
    ],
)
def test_an_input_that_cannot_be_read_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_predict(body).decode(ANY)
    assert text in str(raised.value)


def test_several_inputs_are_to_be_named() -> None:
    none_behind = Signature(SERVING_DEFAULT, {}, {}, is_open=True)
    with pytest.raises(InvalidRequest, match="name each input"):
        parse_predict(b'{"inputs": [1]}').decode(none_behind)
