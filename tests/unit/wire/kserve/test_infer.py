"""ModelInferRequest and ModelInferResponse: several ways to read, one meaning."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest, ServingError
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec, strings
from ie_serving.wire.kserve import infer_request
from ie_serving.wire.kserve.contents import LIST_OF
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.kserve.infer_reply import GrpcReplyEncoder
from ie_serving.wire.kserve.infer_request import InferParser, ModelInfer, parse_soon, parse_whole
from ie_serving.wire.kserve.raw import decode_raw, encode_raw
from ie_serving.wire.kserve.regions import AT_ONCE, BYTE_SIZE, REGION, RegionPart
from ie_serving.wire.protobuf import fields
from ie_serving.wire.protobuf import inference_messages as messages
from ie_serving.wire.protobuf.fields import Encoded, UnusualField
from ie_serving.wire.tfs.predict import ANY_SIGNATURE
from tests.tables import named_by

TYPED = sorted(LIST_OF, key=lambda dtype: dtype.name)


def spec_of(name: str, version: str) -> ModelSpec:
    return ModelSpec(name, label=version or None)


def whole(payload: Encoded) -> ModelInfer:
    return parse_whole(spec_of, payload)


def walked(payload: bytes) -> ModelInfer:
    """Read as large payloads are read, whatever the size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(infer_request, "LARGE", 0)
        try:
            return parse_soon(spec_of, payload)
        except UnusualField:
            return whole(payload)


def outcome(read: Callable[[bytes], ModelInfer], payload: bytes) -> object:
    """Everything that a caller can see of a request; which of several faults is told is open."""
    try:
        request = read(payload)
        arrays, form = request.decode(ANY_SIGNATURE)
    except ServingError as error:
        return InvalidRequest if isinstance(error, InvalidRequest) else type(error)
    found = {name: (a.dtype, a.shape, a.tolist()) for name, a in arrays.items()}
    return request.model, request.output_filter, request.id, form, repr(sorted(found.items()))


def values_of(dtype: DataType, count: int) -> Array:
    if dtype is DataType.STRING:
        return strings([b"\xff" * n for n in range(count)])
    return (np.arange(count) % (2 if dtype is DataType.BOOL else 100)).astype(dtype.numpy)


def message(
    *tensors: tuple[str, DataType, Array], raw: bool = True, id: str = "", model: str = "m"
) -> Any:
    request = messages.ModelInferRequest(model_name=model, id=id)
    for name, dtype, array in tensors:
        tensor = request.inputs.add(name=name, datatype=NAME_OF[dtype], shape=array.shape)
        if raw:
            request.raw_input_contents.append(bytes(encode_raw(array, dtype)))
        else:
            getattr(tensor.contents, LIST_OF[dtype].name).extend(array.reshape(-1).tolist())
    return request


def payload_of(*tensors: tuple[str, DataType, Array], **more: Any) -> bytes:
    return bytes(message(*tensors, **more).SerializeToString())


@pytest.mark.thinned
@pytest.mark.parametrize("read", [whole, walked, InferParser(spec_of).parse])
@pytest.mark.parametrize(
    ("dtype", "raw"),
    [*((dtype, True) for dtype in DataType), *((dtype, False) for dtype in TYPED)],
)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 3), (40_000,)], ids=str)
def test_values_come_through(
    read: Callable[[bytes], ModelInfer], dtype: DataType, raw: bool, shape: tuple[int, ...]
) -> None:
    if dtype is DataType.STRING and len(shape) == 1:
        shape = (shape[0] // 100,)
    array = values_of(dtype, int(np.prod(shape))).reshape(shape)
    payload = payload_of(("x", dtype, array), ("y", dtype, array), raw=raw, id="an id")
    for _ in range(3):
        try:
            request = read(payload)
        except UnusualField:
            request = whole(payload)
        arrays, form = request.decode(ANY_SIGNATURE)
        assert form is raw
        assert request.id == fields.delimited(3, b"an id")
        for given_array in arrays.values():
            assert given_array.shape == shape
            assert given_array.dtype == dtype.numpy
            assert given_array.tolist() == array.tolist()


FLOATS = payload_of(("x", DataType.FP32, values_of(DataType.FP32, 3)), id="abc")
REPEATABLE = {
    "raw": FLOATS,
    "list of floats": payload_of(
        ("x", DataType.FP64, values_of(DataType.FP64, 3)), raw=False, id="abc"
    ),
    "half": payload_of(("x", DataType.FP16, values_of(DataType.FP16, 2))),
    "several": payload_of(
        ("x", DataType.FP32, values_of(DataType.FP32, 2)),
        ("y", DataType.UINT8, values_of(DataType.UINT8, 1)),
    ),
    "none": payload_of(("x", DataType.INT64, values_of(DataType.INT64, 0))),
    "large": payload_of(("x", DataType.FP32, values_of(DataType.FP32, 20_000))),
}


def knowing(payload: bytes) -> InferParser:
    """Give a parser that has seen a request often enough to know its layout."""
    parser = InferParser(spec_of)
    for _ in range(3):
        assert outcome(parser.parse, payload) == outcome(whole, payload)
    return parser


@pytest.mark.parametrize("payload", REPEATABLE.values(), ids=REPEATABLE)
def test_tensors_of_a_repeated_request_are_read_in_place(payload: bytes) -> None:
    parser = knowing(payload)
    for given_payload in (payload, memoryview(payload)):
        arrays, _ = parser.parse(given_payload).decode(ANY_SIGNATURE)
        for array in arrays.values():
            assert not array.size or np.shares_memory(array, np.frombuffer(payload, np.uint8))


@given(st.sampled_from(list(REPEATABLE.values())[:5]), st.data())
def test_any_other_byte_is_noticed(payload: bytes, data: st.DataObject) -> None:
    parser = knowing(payload)
    changed = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    for _ in range(3):
        assert outcome(parser.parse, bytes(changed)) == outcome(whole, bytes(changed))
        assert outcome(parser.parse, payload) == outcome(whole, payload)


def test_another_id_is_no_other_layout() -> None:
    parser = knowing(FLOATS)
    other = FLOATS.replace(b"abc", b"xyz")
    assert type(parser.parse(other)) is ModelInfer
    assert parser.parse(other).at_once is not None
    assert parser.parse(other).id == fields.delimited(3, b"xyz")
    umlaut = FLOATS.replace(b"abc", "\u00e4b".encode())
    assert parser.parse(umlaut).id == fields.delimited(3, "\u00e4b".encode())
    with pytest.raises(InvalidRequest):
        parser.parse(FLOATS.replace(b"abc", b"\xffbc"))


def test_a_datatype_that_the_model_does_not_take_is_named_each_time() -> None:
    spec = TensorSpec("x", DataType.INT32, (-1,), "x")
    signature = Signature("s", {"x": spec}, {})
    parser = knowing(FLOATS)
    for read in (whole, parser.parse):
        with pytest.raises(InvalidRequest, match='"x" has datatype FP32; the model expects INT32'):
            read(FLOATS).decode(signature)


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """One field of an InferTensorContents, packed or not, of the right wire type or not."""
    number = draw(st.integers(1, 9))
    kind = draw(st.sampled_from(["packed", "varint", "fixed32", "fixed64", "bytes"]))
    varints = st.integers(0, 2**64 - 1).map(fields.varint)
    if kind == "varint":
        return fields.tag(number, fields.VARINT) + draw(varints)
    if kind == "fixed32":
        return fields.tag(number, fields.FIXED32) + draw(st.binary(min_size=4, max_size=4))
    if kind == "fixed64":
        return fields.tag(number, fields.FIXED64) + draw(st.binary(min_size=8, max_size=8))
    if kind == "packed":
        return fields.delimited(number, b"".join(draw(st.lists(varints, max_size=4))))
    return fields.delimited(number, draw(st.binary(max_size=12)))


@st.composite
def tensor(draw: st.DrawFn) -> bytes:
    word = draw(st.sampled_from([*NAME_OF.values(), "FP31", ""]))
    sizes = draw(st.lists(st.integers(-1, 3), max_size=2))
    pieces = [
        fields.delimited(1, draw(st.sampled_from([b"x", b"y", b"\xff", b""]))),
        fields.delimited(2, word.encode()),
        fields.delimited(3, b"".join(map(fields.varint, sizes))),
        *(fields.delimited(5, b"".join(each)) for each in draw(st.lists(st.lists(contents())))),
    ]
    return b"".join(draw(st.permutations(pieces)))


@st.composite
def request_bytes(draw: st.DrawFn) -> bytes:
    pieces = [
        fields.delimited(1, draw(st.sampled_from([b"m", b"", b"\xff"]))),
        *(fields.delimited(5, each) for each in draw(st.lists(tensor(), max_size=2))),
        *(fields.delimited(7, each) for each in draw(st.lists(st.binary(max_size=9), max_size=2))),
        *(fields.delimited(3, each) for each in draw(st.lists(st.binary(max_size=3), max_size=2))),
        *(
            fields.delimited(6, fields.delimited(1, each))
            for each in draw(st.lists(st.sampled_from([b"o", b"p"]), max_size=2))
        ),
    ]
    return b"".join(draw(st.permutations(pieces)))


@given(request_bytes())
def test_both_ways_of_reading_agree(payload: bytes) -> None:
    assert outcome(walked, payload) == outcome(whole, payload)


@given(st.lists(request_bytes(), min_size=1, max_size=4))
def test_any_requests_read_the_same_each_time(payloads: list[bytes]) -> None:
    parser = InferParser(spec_of)
    for payload in payloads * 3:
        assert outcome(parser.parse, payload) == outcome(whole, payload)


@named_by(
    "text",
    ("change", "kind", "text"),
    [
        (lambda r: r.inputs[0].contents.int_contents.append(1), InvalidRequest, "both contents"),
        (lambda r: r.raw_input_contents.append(b""), InvalidRequest, "2 entries, and there are 1"),
        (lambda r: r.inputs[0].shape.append(2**62), InvalidRequest, "takes"),
        (lambda r: r.inputs[0].shape.extend([0, 2**62, 2**62]), InvalidRequest, "12 bytes"),
        (lambda r: r.inputs.extend([r.inputs[0]] * 300), InvalidRequest, "301 inputs; at most 256"),
        (
            lambda r: [r.outputs.add(name=str(n)) for n in range(1001)],
            InvalidRequest,
            "1001 outputs; at most 1000",
        ),
        (
            lambda r: [r.parameters[str(n)].SetInParent() for n in range(1001)],
            InvalidRequest,
            "1001 parameters; at most 1000",
        ),
        (
            lambda r: r.inputs[0].parameters["shared_memory_region"].SetInParent(),
            InvalidRequest,
            'parameter "shared_memory_region" of input "x" has to be the name of a region',
        ),
    ],
)
def test_a_malformed_request_is_refused_by_each_reader(
    change: Callable[[Any], object], kind: type[Exception], text: str
) -> None:
    request = message(("x", DataType.FP32, values_of(DataType.FP32, 3)))
    change(request)
    for read in (whole, walked):
        with pytest.raises(kind, match=text):
            read(request.SerializeToString()).decode(ANY_SIGNATURE)


def test_empty_contents_beside_raw_ones_are_none() -> None:
    request = message(("x", DataType.FP32, values_of(DataType.FP32, 3)))
    request.inputs[0].contents.SetInParent()
    for read in (whole, walked):
        arrays, form = read(request.SerializeToString()).decode(ANY_SIGNATURE)
        assert (arrays["x"].tolist(), form) == ([0, 1, 2], True)


@named_by(
    "dtype value",
    ("dtype", "value"),
    [(DataType.INT8, 128), (DataType.INT8, -129), (DataType.UINT8, 256), (DataType.INT16, 40_000)],
)
def test_a_value_that_its_type_cannot_hold_is_refused(dtype: DataType, value: int) -> None:
    request = message(("x", dtype, np.array([value], np.int64)), raw=False)
    for read in (whole, walked):
        with pytest.raises(InvalidRequest, match=f"out of the range of {dtype.name}"):
            read(request.SerializeToString()).decode(ANY_SIGNATURE)


def test_parameters_of_a_sequence_become_inputs() -> None:
    specs = {
        "sequence_id": TensorSpec("sequence_id", DataType.UINT64, (1,), "", apart=True),
        "sequence_control_input": TensorSpec(
            "sequence_control_input", DataType.UINT32, (1,), "", apart=True
        ),
    }
    request = message(("x", DataType.FP32, values_of(DataType.FP32, 3)))
    request.parameters["sequence_id"].int64_param = 7
    request.parameters["sequence_start"].bool_param = True
    request.parameters["sequence_end"].bool_param = False
    parser = InferParser(spec_of)
    for _ in range(4):
        parsed = parser.parse(request.SerializeToString())
        arrays, _ = parsed.decode(Signature("s", specs, {}))
        assert arrays["sequence_id"].tolist() == [7]
        assert arrays["sequence_control_input"].tolist() == [1]


# -- replies -----------------------------------------------------------------------------------


def read_reply(reply: bytes) -> tuple[Any, dict[str, Array]]:
    """Read by protobuf alone."""
    response = messages.ModelInferResponse.FromString(reply)
    raws = list(response.raw_output_contents) or [None] * len(response.outputs)
    found: dict[str, Array] = {}
    for output, raw in zip(response.outputs, raws, strict=True):
        dtype = next(each for each, word in NAME_OF.items() if word == output.datatype)
        shape = tuple(output.shape)
        if raw is not None:
            assert not output.HasField("contents")
            found[output.name] = decode_raw(raw, dtype, shape, output.name)
        else:
            values = list(getattr(output.contents, LIST_OF[dtype].name))
            array = strings(values) if dtype is DataType.STRING else np.array(values, dtype.numpy)
            found[output.name] = array.reshape(shape)
    return response, found


@given(st.data())
def test_replies_are_what_protobuf_reads(data: st.DataObject) -> None:
    dtypes = data.draw(st.lists(st.sampled_from(list(DataType)), max_size=3))
    raw = data.draw(st.booleans())
    outputs: dict[str, Array] = {}
    specs: dict[str, TensorSpec] = {}
    for number, dtype in enumerate(dtypes):
        shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
        name = f"out {number}"
        specs[name] = TensorSpec(name, dtype, None, name)
        outputs[name] = values_of(dtype, int(np.prod(shape))).reshape(shape)
    encoder = GrpcReplyEncoder("a model", 3, specs, raw=raw)
    for _ in range(2):
        response, found = read_reply(encoder.encode(outputs) + fields.delimited(3, b"id"))
        assert (response.model_name, response.model_version, response.id) == ("a model", "3", "id")
        assert bool(response.raw_output_contents) is bool(
            dtypes and (raw or {DataType.FP16, DataType.BF16} & set(dtypes))
        )
        assert list(found) == list(outputs)
        for name, array in outputs.items():
            assert (found[name].shape, found[name].tolist()) == (array.shape, array.tolist())
            assert found[name].dtype == array.dtype


class Zeros:
    """Regions of any size."""

    def check(self, place: RegionPart) -> None:
        """Refuses nothing."""

    def read(self, place: RegionPart) -> Encoded:
        return bytes(place.size)

    write = read


def test_bytes_from_regions_on_the_event_loop_are_bounded_for_the_whole_request() -> None:
    def asked(count: int, size: int) -> bytes:
        request = messages.ModelInferRequest(model_name="m")
        for number in range(count):
            tensor = request.inputs.add(name=str(number), datatype="UINT8", shape=[size])
            tensor.parameters[REGION].string_param = "r"
            tensor.parameters[BYTE_SIZE].int64_param = size
        return bytes(request.SerializeToString())

    parser = InferParser(spec_of, Zeros())
    for _ in range(3):  # each request has all of it
        assert parser.parse(asked(2, AT_ONCE // 2)).size > AT_ONCE
        for many in (asked(3, AT_ONCE // 2), asked(1, AT_ONCE + 1)):
            with pytest.raises(UnusualField):
                parser.parse(many)
