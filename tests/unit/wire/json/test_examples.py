"""Bodies of Classify and Regress: which are taken, and TensorFlow Serving's words for the rest."""

import math

import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.json.examples import ExamplesBody, parse_examples


def test_examples_are_read_with_their_context() -> None:
    body = (
        b'{"signature_name": "s", "context": {"c": "x"}, "examples": [{"i": [1, true], "f": NaN,'
        b' "b": ["a", {"b64": "aGk="}], "none": []}, {"i": 2}]}'
    )
    got = parse_examples(body, "classify")
    assert (got.signature_name, got.context) == ("s", {"c": [b"x"]})
    first, second = got.examples
    assert math.isnan(first.pop("f")[0])
    assert first == {"i": [1, 1], "b": [b"a", b"hi"], "none": []}
    assert second == {"i": [2]}
    assert [type(value) for value in got.examples[0]["i"]] == [int, int]


@pytest.mark.parametrize("rest", ["", " x"], ids=["strict JSON", "the dialect"])
def test_the_first_of_equal_keys_counts(rest: str) -> None:
    body = (
        '{"context": {"c": 1, "c": 2}, "examples": [{"f": [1], "f": [2]}], "examples": [{}]}' + rest
    )
    got = parse_examples(body.encode(), "classify")
    assert got == ExamplesBody("", {"c": [1]}, [{"f": [1]}])


def test_examples_are_read_without_context() -> None:
    got = parse_examples(b'{"examples": [{}]}', "regress")
    assert got == ExamplesBody("", None, [{}])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(
            "{}",
            "JSON Value: {} When method is classify, key 'examples' is expected and was not found",
            id="no examples",
        ),
        pytest.param(
            '{"examples": [{"f": 9223372036854775808}]}',
            "Feature: f has uint64_t element. Only int64_t is supported.",
            id="64 bits without a sign",
        ),
        pytest.param(
            '{"examples": [{"f": {"b64": "!"}}]}', "Unable to base64 decode", id="no base64"
        ),
        pytest.param(
            '{"signature_name": null, "examples": [{}]}',
            "'signature_name' key must be a string",
            id="null as signature name",
        ),
    ],
)
def test_examples_that_are_malformed_are_refused(body: str, text: str) -> None:
    """More are in `tests/functional/conformance/cases/rest_examples.py`."""
    for method in ("classify", "regress"):
        with pytest.raises(InvalidRequest) as caught:
            parse_examples(body.encode(), method)
        assert text in str(caught.value)
