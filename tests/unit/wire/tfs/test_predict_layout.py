"""A request that repeats an earlier one reads as if it were parsed anew, whatever differs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import DataType
from ie_serving.wire.protobuf import fields, messages
from ie_serving.wire.protobuf.fields import UnusualField
from ie_serving.wire.tfs import predict, predict_layout
from ie_serving.wire.tfs.predict import ANY_SIGNATURE, parse_request, parse_whole
from ie_serving.wire.tfs.predict_layout import RequestParser
from tests.unit.wire.tfs.test_predict import outcome, request, request_bytes


def payload_of(*tensors: tuple[str, DataType, Any], content: bool = True) -> bytes:
    message = messages.PredictRequest()
    message.model_spec.name = "m"
    for alias, dtype, values in tensors:
        array = np.asarray(values, dtype.numpy)
        tensor = message.inputs[alias]
        tensor.dtype = dtype.number
        for size in array.shape:
            tensor.tensor_shape.dim.add(size=size)
        if content:
            tensor.tensor_content = array.tobytes()
        else:
            tensor.float_val.extend(array.reshape(-1).tolist())
    return bytes(message.SerializeToString())


def knowing(payload: bytes) -> RequestParser:
    """Give a parser that has seen a request often enough to know its layout."""
    parser = RequestParser()
    for _ in range(3):
        assert outcome(parser.parse, payload) == outcome(parse_whole, payload)
    return parser


FLOATS = payload_of(("x", DataType.FP32, [[1, 2, 3]]))
REPEATABLE = {
    "content": FLOATS,
    "list of floats": payload_of(("x", DataType.FP32, [[1, 2, 3]]), content=False),
    "half": payload_of(("x", DataType.FP16, [1, 2])),
    "scalar": payload_of(("x", DataType.INT64, 3)),
    "several": payload_of(("x", DataType.FP32, [1, 2]), ("y", DataType.UINT8, [3])),
    "large": payload_of(("x", DataType.FP32, np.arange(20_000))),
}


@pytest.mark.parametrize("payload", REPEATABLE.values(), ids=REPEATABLE)
def test_tensors_of_a_repeated_request_are_read_in_place(payload: bytes) -> None:
    parser = knowing(payload)
    for given_payload in (payload, memoryview(payload)):
        for array in parser.parse(given_payload).decode(ANY_SIGNATURE)[0].values():
            assert np.shares_memory(array, np.frombuffer(payload, np.uint8))


@pytest.mark.parametrize(
    "message",
    [
        request(1, dtype=DataType.STRING, tensor_content=b"\x01a"),
        request(1, dtype=DataType.STRING, string_val=[b"a"]),
        request(1, tensor_content=b"abcd", float_val=[2.0]),
        request(1_000, float_val=[2.0]),
        request(1, float_val=[2.0] * 1_000),
        request(1, float_val=[2.0] * 100_000),
        request(1_000, dtype=DataType.INT64, int64_val=[2]),
        request(1_000, dtype=DataType.INT64, int64_val=[300] * 1_000),
        request(3_000, dtype=DataType.BOOL, tensor_content=b"\x01" * 3_000),
    ],
    ids=lambda message: " ".join(str(message.inputs["x"]).split())[:100],
)
def test_strings_and_many_values_that_do_not_lie_as_in_memory_are_parsed(message: Any) -> None:
    payload = message.SerializeToString()
    knowing(payload)
    with pytest.raises(UnusualField):
        RequestParser().layout_of(payload, parse_request(payload))


@pytest.mark.parametrize(
    ("message", "other"),
    [
        (
            request(1, dtype=DataType.BOOL, tensor_content=b"\x01"),
            request(1, dtype=DataType.BOOL, tensor_content=b"\x00"),
        ),
        (
            request(1, dtype=DataType.BF16, tensor_content=b"\x80\x3f"),
            request(1, dtype=DataType.BF16, tensor_content=b"\x00\x40"),
        ),
        (
            request(1, dtype=DataType.INT64, int64_val=[300]),
            request(1, dtype=DataType.INT64, int64_val=[301]),
        ),
        (
            request(1, dtype=DataType.FP16, half_val=[15360]),
            request(1, dtype=DataType.FP16, half_val=[15361]),
        ),
        (request(3, float_val=[2.0]), request(3, float_val=[3.0])),
        (request(1, float_val=[2.0, 3.0]), request(1, float_val=[3.0, 3.0])),
    ],
    ids=lambda message: " ".join(str(message.inputs["x"]).split()),
)
def test_a_few_values_that_do_not_lie_as_in_memory_are_fixed(message: Any, other: Any) -> None:
    first, second = message.SerializeToString(), other.SerializeToString()
    parser = knowing(first)
    arrays = [parser.parse(first).decode(ANY_SIGNATURE)[0]["x"] for _ in range(2)]
    assert arrays[0] is arrays[1]
    assert not arrays[0].flags.writeable
    assert not np.shares_memory(arrays[0], np.frombuffer(first, np.uint8))  # which is let go
    for payload in (second, first) * 3:
        assert outcome(parser.parse, payload) == outcome(parse_whole, payload)
    # What was fixed has changed, so all of it is parsed from now on.
    arrays = [parser.parse(first).decode(ANY_SIGNATURE)[0]["x"] for _ in range(2)]
    assert arrays[0] is not arrays[1]


@given(st.sampled_from(list(REPEATABLE.values())[:5]), st.data())
def test_any_other_byte_is_noticed(payload: bytes, data: st.DataObject) -> None:
    parser = knowing(payload)
    changed = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    for _ in range(3):
        assert outcome(parser.parse, bytes(changed)) == outcome(parse_whole, bytes(changed))
        assert outcome(parser.parse, payload) == outcome(parse_whole, payload)


@given(st.lists(request_bytes(), min_size=1, max_size=4))
def test_any_requests_read_the_same_each_time(payloads: list[bytes]) -> None:
    parser = RequestParser()
    for payload in payloads * 3:
        assert outcome(parser.parse, payload) == outcome(parse_whole, payload)


def test_a_request_without_a_layout_is_decoded_by_its_caller_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lists of integers take long to decode; looking for a layout must not do it again."""
    message = request(1_500, dtype=DataType.INT64, int64_val=[300] * 1_500)
    decoded: list[object] = []
    decode = predict.decode_tensor
    monkeypatch.setattr(predict, "decode_tensor", lambda *a: decoded.append(a) or decode(*a))
    parser = RequestParser()
    for _ in range(4):
        parser.parse(message.SerializeToString()).decode(ANY_SIGNATURE)[0]
    assert len(decoded) == 4


def test_new_values_are_seen() -> None:
    parser = knowing(FLOATS)
    other = payload_of(("x", DataType.FP32, [[4, 5, 6]]))
    assert parser.parse(other).decode(ANY_SIGNATURE)[0]["x"].tolist() == [[4, 5, 6]]


def test_models_of_one_length_are_kept_apart() -> None:
    parser = knowing(FLOATS)
    other = FLOATS.replace(b"m", b"n", 1)
    for _ in range(3):
        assert parser.parse(other).model.name == "n"
        assert parser.parse(FLOATS).model.name == "m"
    assert len(parser) == 2


def test_the_number_of_remembered_layouts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_layout, "MOST_LAYOUTS", 3)
    parser = RequestParser()
    for size in range(10):
        parser.parse(payload_of(("x", DataType.FP32, np.ones(size))))
    assert len(parser) == 3


def test_a_request_with_much_beside_its_values_is_not_remembered() -> None:
    payload = FLOATS + fields.delimited(3, b"y" * predict_layout.MOST_BYTES)
    with pytest.raises(UnusualField):
        RequestParser().layout_of(payload, parse_request(payload))


@pytest.mark.parametrize("payload", [b"", b"\x0a", b"\xff\xff", b"\x12\x00"])
def test_refused_requests_are_refused_each_time(payload: bytes) -> None:
    parser = RequestParser()
    for _ in range(3):
        with pytest.raises(InvalidRequest):
            parser.parse(payload)
