"""PredictRequest and PredictResponse: two ways to read, one meaning."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.wire.protobuf import fields, messages
from ie_serving.wire.tfs import predict
from ie_serving.wire.tfs.predict import (
    ANY_SIGNATURE,
    ResponseEncoder,
    parse_request,
    parse_soon,
    parse_whole,
    request_of,
)
from ie_serving.wire.tfs.tensor_proto import MOST_FILLED_BYTES


def inputs_of(payload: bytes) -> Mapping[str, Array]:
    return parse_request(payload).decode(ANY_SIGNATURE)[0]


def split(payload: bytes) -> InferRequest:
    """Read as large payloads are read, whatever the size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "LARGE", 0)
        return parse_request(payload)


def outcome(read: Callable[[bytes], InferRequest], payload: bytes) -> object:
    """Everything that a caller can see of a request.

    Which of several faults is named is left open: the entries of a map have no order.
    """
    try:
        call = read(payload)
        inputs = call.decode(ANY_SIGNATURE)[0]
    except InvalidRequest:
        return InvalidRequest
    arrays = {alias: (a.dtype, a.shape, a.tolist()) for alias, a in inputs.items()}
    return call.model, call.output_filter, repr(sorted(arrays.items()))


VARINTS = st.integers(0, 2**64 - 1).map(fields.varint)
SHAPES = st.lists(st.integers(0, 3), max_size=2)


def shape_bytes(sizes: list[int]) -> bytes:
    shape = messages.TensorShapeProto()
    for size in sizes:
        shape.dim.add(size=size)
    return bytes(shape.SerializeToString())


@st.composite
def tensor_field(draw: st.DrawFn) -> bytes:
    """One field of a TensorProto, packed or not, of the right wire type or not."""
    number = draw(st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 17, 99]))
    kind = draw(st.sampled_from(["packed", "varint", "fixed32", "fixed64", "shape", "bytes"]))
    if number == 1 and draw(st.booleans()):
        return fields.tag(1, 0) + fields.varint(draw(st.sampled_from(list(DataType))).number)
    if kind == "varint":
        return fields.tag(number, fields.VARINT) + draw(VARINTS)
    if kind == "fixed32":
        return fields.tag(number, fields.FIXED32) + draw(st.binary(min_size=4, max_size=4))
    if kind == "fixed64":
        return fields.tag(number, fields.FIXED64) + draw(st.binary(min_size=8, max_size=8))
    if kind == "packed":
        return fields.delimited(number, b"".join(draw(st.lists(VARINTS, max_size=5))))
    if kind == "shape":
        return fields.delimited(2, shape_bytes(draw(SHAPES)))
    return fields.delimited(number, draw(st.binary(max_size=12)))


def tensor_bytes() -> st.SearchStrategy[bytes]:
    dtype = st.sampled_from(list(DataType)).map(lambda d: b"\x08" + fields.varint(d.number))
    rest = st.lists(tensor_field(), max_size=6).map(b"".join)
    return st.builds(bytes.__add__, dtype, rest)


def entry_bytes() -> st.SearchStrategy[bytes]:
    keys = st.sampled_from([b"x", b"y", "é".encode(), b"\xff"])
    key = keys.map(lambda name: fields.delimited(1, name))
    value = tensor_bytes().map(lambda t: fields.delimited(2, t))
    return st.lists(st.one_of(key, value), max_size=4).map(b"".join)


def request_bytes() -> st.SearchStrategy[bytes]:
    spec = fields.delimited(1, messages.ModelSpec(name="m").SerializeToString())
    entry = entry_bytes().map(lambda e: fields.delimited(2, e))
    other = st.sampled_from(
        [fields.delimited(3, b"y"), spec, b"\x20\x01", fields.delimited(1, b"")]
    )
    pieces = st.lists(st.one_of(entry, entry, other), max_size=5).map(b"".join)
    return pieces.map(lambda piece: spec + piece)


@given(request_bytes())
def test_both_ways_read_the_same(payload: bytes) -> None:
    assert outcome(split, payload) == outcome(parse_whole, payload)


@given(request_bytes(), st.data())
def test_both_ways_refuse_the_same(payload: bytes, data: st.DataObject) -> None:
    broken = bytearray(payload)
    place = data.draw(st.integers(0, len(broken) - 1))
    broken[place] = data.draw(st.integers(0, 255))
    cut = bytes(broken[: data.draw(st.integers(0, len(broken)))])
    assert outcome(split, cut) == outcome(parse_whole, cut)


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    assert outcome(split, payload) == outcome(parse_whole, payload)


SPEC = fields.delimited(1, messages.ModelSpec(name="m").SerializeToString())
ONE = b"\x08\x03" + fields.delimited(2, shape_bytes([1]))


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(
            fields.delimited(1, b"\xff") + fields.delimited(1, b"x") + fields.delimited(2, ONE),
            id="a key that is no UTF-8, replaced by one that is",
        ),
        pytest.param(
            fields.delimited(1, b"x") + fields.delimited(2, ONE + fields.delimited(10, b"\x80")),
            id="a malformed list of another dtype",
        ),
        pytest.param(
            fields.delimited(1, b"x")
            + fields.delimited(2, ONE + b"\x22\x04abcd" + fields.delimited(7, b"\x80")),
            id="a malformed list beside tensor_content",
        ),
        pytest.param(
            fields.delimited(1, b"x")
            + fields.delimited(
                2, ONE + fields.delimited(7, b"\x80") + fields.delimited(7, b"\x01")
            ),
            id="a varint over two pieces of a list",
        ),
        pytest.param(
            fields.delimited(1, b"x")
            + fields.delimited(2, ONE + fields.delimited(7, b"\xff" * 11)),
            id="a varint of eleven bytes",
        ),
    ],
)
def test_an_entry_that_protobuf_refuses_is_refused_when_large_too(entry: bytes) -> None:
    payload = SPEC + fields.delimited(2, entry)
    assert outcome(parse_whole, payload) is InvalidRequest
    assert outcome(split, payload) is InvalidRequest


def request(size: int, **values: Any) -> Any:
    message = messages.PredictRequest()
    message.model_spec.name = "m"
    tensor = message.inputs["x"]
    tensor.dtype = values.pop("dtype", DataType.FP32).number
    tensor.tensor_shape.dim.add(size=size)
    tensor.MergeFrom(messages.TensorProto(**values))
    return message


def test_model_and_filter_are_read_before_the_tensors() -> None:
    message = request(1, tensor_content=b"bad")
    message.model_spec.version.value = 0
    message.model_spec.signature_name = "s"
    message.output_filter.extend(["b", "a"])
    call = parse_request(message.SerializeToString())
    assert call.model == ModelSpec("m", version=0, signature="s")
    assert call.output_filter == ("b", "a")
    with pytest.raises(InvalidTensor, match="tensor parsing error: x"):
        call.decode(ANY_SIGNATURE)[0]


@pytest.mark.parametrize("is_list", [False, True], ids=["tensor_content", "a packed list"])
def test_many_floats_stay_in_the_payload(is_list: bool) -> None:
    values = np.arange(100_000, dtype=np.float32)
    given = {"float_val": values.tolist()} if is_list else {"tensor_content": values.tobytes()}
    payload = request(values.size, **given).SerializeToString()
    array = inputs_of(payload)["x"]
    assert np.shares_memory(array, np.frombuffer(payload, np.uint8))
    np.testing.assert_array_equal(array, values)


def test_a_large_list_of_integers_is_read() -> None:
    values = np.random.default_rng(0).integers(-(2**62), 2**62, 50_000)
    message = request(values.size, dtype=DataType.INT64, int64_val=values.tolist())
    array = inputs_of(message.SerializeToString())["x"]
    np.testing.assert_array_equal(array, values)


def test_a_shape_of_very_many_sizes_is_not_parsed_at_once() -> None:
    """It is no value, so the walk over the request would have protobuf parse all of it here."""
    tensor = b"\x08\x01" + fields.delimited(2, b"\x12\x00" * predict.LARGE)
    entry = fields.delimited(1, b"x") + fields.delimited(2, tensor)
    with pytest.raises(fields.UnusualField):
        parse_soon(SPEC + fields.delimited(2, entry))


def test_large_strings_are_read() -> None:
    images = [bytes([n]) * 50_000 for n in range(3)]
    message = request(3, dtype=DataType.STRING, string_val=images)
    assert inputs_of(message.SerializeToString())["x"].tolist() == images


def test_a_large_list_of_short_strings_is_for_protobuf_to_parse() -> None:
    """To walk them took twenty times as long, on the event loop."""
    words = [b"%0200d" % n for n in range(500)]
    message = request(len(words), dtype=DataType.STRING, string_val=words)
    with pytest.raises(fields.UnusualField):
        parse_soon(message.SerializeToString())
    assert inputs_of(message.SerializeToString())["x"].tolist() == words


def test_a_list_of_more_strings_than_are_worth_walking() -> None:
    words = [b"%020d" % n for n in range(fields.MOST_FIELDS + 1)]
    message = request(len(words), dtype=DataType.STRING, string_val=words)
    assert inputs_of(message.SerializeToString())["x"].tolist() == words


def test_several_tensors_share_the_limit_of_what_lists_may_fill() -> None:
    message = request(0)
    for alias in ("a", "b", "c"):
        message.inputs[alias].dtype = DataType.UINT8.number
        message.inputs[alias].tensor_shape.dim.add(size=MOST_FILLED_BYTES // 2)
    with pytest.raises(InvalidTensor, match=r"0 values are given .* 0 bytes more may be filled up"):
        inputs_of(message.SerializeToString())


def test_elements_to_be_filled_up_count_as_size() -> None:
    message = request(0)
    given = message.inputs["given"]
    given.dtype = DataType.FP32.number
    given.tensor_shape.dim.add(size=1000)
    given.float_val.extend([1.0] * 1000)
    sent = message.SerializeToString()
    assert parse_request(sent).size == len(sent)
    for alias in ("a", "b"):
        message.inputs[alias].dtype = DataType.FP32.number
        message.inputs[alias].tensor_shape.dim.add(size=1000)
        message.inputs[alias].float_val.append(1.0)
    sent = message.SerializeToString()
    assert parse_request(sent).size == len(sent) + 2 * 999 * 4


def test_elements_to_be_filled_up_in_a_large_request_count_as_size() -> None:
    message = request(30_000, float_val=[1.0] * 30_000)
    message.inputs["raw"].dtype = DataType.FP32.number
    message.inputs["raw"].tensor_shape.dim.add(size=30_000)
    message.inputs["raw"].tensor_content = bytes(120_000)
    message.inputs["given"].dtype = DataType.INT64.number
    message.inputs["given"].tensor_shape.dim.add(size=30_000)
    message.inputs["given"].int64_val.extend([1] * 30_000)
    sent = message.SerializeToString()
    assert parse_request(sent).size == len(sent)
    message.inputs["few"].dtype = DataType.FP32.number
    message.inputs["few"].tensor_shape.dim.add(size=1_000_000)
    message.inputs["few"].float_val.append(1.0)
    sent = message.SerializeToString()
    assert parse_request(sent).size == pytest.approx(len(sent) + 4_000_000, abs=16)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        pytest.param(b"", "Missing ModelSpec", id="nothing"),
        pytest.param(
            fields.delimited(1, b""), "ModelSpec has no name specified.", id="a spec without a name"
        ),
        pytest.param(b"\xff", "not a valid tensorflow.serving.PredictRequest", id="no message"),
        pytest.param(
            b"\x0a" + b"\xff" * (1 << 16),
            "not a valid tensorflow.serving.PredictRequest",
            id="a length that has no end",
        ),
    ],
)
def test_refused_requests(payload: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        parse_request(payload)


OUTPUTS = {
    "p": TensorSpec("p", DataType.FP32, (-1, 2), "p:0"),
    "n": TensorSpec("n", DataType.INT64, (-1,), "n:0"),
}
SIGNATURE = Signature("serving_default", {}, OUTPUTS)
ARRAYS = {"p": np.array([[0.5, 1]], np.float32), "n": np.array([-1, 300])}


@pytest.mark.parametrize("tensor_content", [True, False])
def test_a_reply_is_what_protobuf_parses(tensor_content: bool) -> None:
    encoder = ResponseEncoder("m", 0, SIGNATURE, tensor_content=tensor_content)
    for _ in range(2):  # the second time from what is remembered
        response = messages.PredictResponse.FromString(encoder.encode(ARRAYS))
        spec = response.model_spec
        assert (spec.name, spec.signature_name) == ("m", "serving_default")
        assert spec.HasField("version")
        assert spec.version.value == 0
        call = request_of(messages.PredictRequest(model_spec=spec), response.outputs, 0)
        decoded = {alias: array.tolist() for alias, array in call.decode(ANY_SIGNATURE)[0].items()}
        assert decoded == {alias: array.tolist() for alias, array in ARRAYS.items()}


def test_one_encoder_takes_any_shape() -> None:
    encoder = ResponseEncoder("m", 1, SIGNATURE)
    for rows in (0, 1, 3, 1):
        arrays = {"p": np.ones((rows, 2), np.float32), "n": np.ones(rows, np.int64)}
        response = messages.PredictResponse.FromString(encoder.encode(arrays))
        assert [dim.size for dim in response.outputs["p"].tensor_shape.dim] == [rows, 2]
        assert len(response.outputs["p"].tensor_content) == rows * 8


def test_a_reply_has_the_outputs_that_are_asked_for() -> None:
    encoder = ResponseEncoder("m", 1, SIGNATURE, ["n"])
    response = messages.PredictResponse.FromString(encoder.encode(ARRAYS))
    assert list(response.outputs) == ["n"]
    assert response.model_spec.name == "m"
