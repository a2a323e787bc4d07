"""Decodes ModelInferRequest to numpy, faster where it repeats an earlier request's layout.

A repeated request differs in values and id alone: see `Layout`. As for Predict
(`wire/tfs/predict.py`): protobuf parses a small request whole, and a large one without the values
of its tensors, which stay in the payload. Source: grpc_predict_v2.proto.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.requests import Decoded, InferRequest, ModelSpec
from ie_serving.core.values.tensors import Array, DataType, SentBuffer, Signature
from ie_serving.wire.kserve.classes import CLASSIFICATION, number_of_classes
from ie_serving.wire.kserve.contents import ContentPieces, decode_contents, texts_of
from ie_serving.wire.kserve.datatypes import BY_NAME, datatype
from ie_serving.wire.kserve.infer_fields import ID, REWRITTEN, InputFields, WalkedRequest, walk
from ie_serving.wire.kserve.inputs import SENT, check_datatype, sequence_inputs, unique
from ie_serving.wire.kserve.raw import checked_shape, decode_raw, join_elements
from ie_serving.wire.kserve.regions import (
    BYTE_SIZE,
    OFF,
    OFFSET,
    REGION,
    RegionPart,
    Regions,
    ReplyRegions,
    SmallParts,
    part_of,
)
from ie_serving.wire.protobuf import inference_messages as messages
from ie_serving.wire.protobuf.fields import Encoded, UnusualField, delimited
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.predict import LARGE
from ie_serving.wire.tfs.predict_fields import MOST_INPUTS
from ie_serving.wire.tfs.predict_layout import (
    Layout,
    RepeatedParser,
    TensorSpan,
    between,
    in_place,
)
from ie_serving.wire.tfs.request_messages import parse

SpecOf: TypeAlias = Callable[[str, str], ModelSpec]
"""Finds the servable by the name of a model and a version, which may be empty."""

MOST_PARAMETERS: Final = 1000
"""Requested outputs of a request, and parameters of each of its parts; each takes some 1 us."""
SHOWN: Final = 200
"""Characters of a client's name that an error repeats."""


@dataclass(slots=True)
class ModelInfer(InferRequest):
    """A request of the protocol.

    Attributes:
        id: the field of the request's id, which the reply repeats: its number is the same there.
            Empty where there is none.
        classes: numbers of classes, by the names of the outputs that are wanted as such; None where
            none are.
        form: form of the reply: whether it is raw, or a `ReplyRegions`.
    """

    id: bytes = b""
    classes: Mapping[str, int] | None = None
    form: object = False


class RequestTensor(NamedTuple):
    """One input whose values are not yet decoded.

    Attributes:
        described: an InferInputTensor: name, datatype, shape.
        contents: its typed values; None where it has none.
        raw: its bytes, in a raw request or from a region; else None.
    """

    described: Proto
    contents: Proto | ContentPieces | None
    raw: Encoded | None


def parse_soon(spec_of: SpecOf, payload: Encoded, regions: Regions = OFF) -> ModelInfer:
    """Parse a ModelInferRequest, if that is quick.

    Args:
        spec_of: function that finds the servable, a `SpecOf`.
        payload: kept alive, unchanged, by the request and the arrays that it decodes.
        regions: regions of shared memory; inputs that lie there are copied.

    Raises:
        InvalidRequest: malformed, or against the rules of the protocol.
        NotSupported: it demands an unsupported feature.
        NotFound: a region is not registered.
        UnusualField: a large request that protobuf has to parse.
    """
    if len(payload) < LARGE:
        return parse_whole(spec_of, payload, regions)
    view = memoryview(payload)
    rest, id, tensors, is_raw = walk(view)
    field = bytes(view[id.start : id.end]) if id else b""
    split = [_split(view, each) for each in tensors]
    return _request(spec_of, rest, split, is_raw, field, payload, regions)


def parse_whole(spec_of: SpecOf, payload: Encoded, regions: Regions = OFF) -> ModelInfer:
    """Parse a ModelInferRequest with protobuf alone; see `parse_soon`."""
    message = parse(messages.ModelInferRequest, payload)
    inputs, raws = message.inputs, message.raw_input_contents
    # Each costs microseconds, and 64 KB have room for 30,000 empty ones.
    if len(inputs) > MOST_INPUTS:
        raise InvalidRequest(f"{len(inputs)} inputs; at most {MOST_INPUTS} are taken")
    contents: Sequence[bytes | None] = raws or [None] * len(inputs)
    if raws and len(raws) != len(inputs):
        contents = _beside_regions(raws, inputs)
    tensors = [
        RequestTensor(each, each.contents if each.HasField("contents") else None, raw)
        for each, raw in zip(inputs, contents, strict=True)
    ]
    id = delimited(ID, message.id.encode()) if message.id else b""
    return _request(spec_of, message, tensors, bool(raws), id, payload, regions)


def _beside_regions(raws: Sequence[bytes], inputs: Sequence[Proto]) -> list[bytes | None]:
    """Give the raw contents of each input; None where it is in a region. Raises: InvalidRequest."""
    outside = [REGION not in each.parameters for each in inputs]
    if len(raws) != sum(outside):
        raise InvalidRequest(
            f"raw_input_contents has {len(raws)} entries, and there are {sum(outside)} inputs:"
            " send one for each input, or none"
        )
    left = iter(raws)
    return [next(left) if is_outside else None for is_outside in outside]


def _split(payload: memoryview, tensor: InputFields) -> RequestTensor:
    lists: ContentPieces | None = None
    if tensor.lists is not None:
        lists = {
            number: [payload[piece.value : piece.end] for piece in pieces]
            for number, pieces in tensor.lists.items()
        }
    raw = payload[tensor.raw.value : tensor.raw.end] if tensor.raw else None
    return RequestTensor(tensor.rest, lists, raw)


def _request(
    spec_of: SpecOf,
    message: Proto,
    tensors: Sequence[RequestTensor],
    is_raw: bool,
    id: bytes,
    payload: Encoded,
    regions: Regions,
) -> ModelInfer:
    if not message.model_name:
        raise InvalidRequest("the request names no model: set model_name to a served model")
    model = spec_of(message.model_name, message.model_version)
    unique((each.described.name for each in tensors), "input")
    size = len(payload)
    for each in tensors:
        if each.described.parameters and REGION in each.described.parameters:
            tensors, is_raw, size = _with_regions(tensors, size, regions)
            break
    parameters = _parameters(message.parameters, "the request")
    outputs = _requested_outputs(message.outputs)
    classes, parts = _classes(message.outputs), _parts(message.outputs, regions)
    if classes and parts:
        raise InvalidRequest(
            "classification and shared memory of outputs exclude each other: leave one of them out"
        )
    form = ReplyRegions(parts, regions, {}, raw=is_raw) if parts else is_raw
    decode = partial(_decode, tensors, form, parameters)
    at_once = decode if size != len(payload) and _are_views(tensors) else None
    return ModelInfer(model, "", decode, size, at_once, outputs, None, id, classes, form)


def _with_regions(
    tensors: Sequence[RequestTensor], size: int, regions: Regions
) -> tuple[list[RequestTensor], bool, int]:
    """Read the inputs that are in regions.

    Args:
        tensors: all inputs of a request.
        size: size of the request in bytes.
        regions: shared memory that holds some of them.

    Returns:
        The inputs, whether the reply is raw, and the size of the request with what was read.
    """
    found = []
    for tensor in tensors:
        name, contents = tensor.described.name[:SHOWN], tensor.contents
        part = _part(tensor.described, f'input "{name}"')
        if part is None:
            found.append(tensor)
            continue
        if tensor.raw is not None or (contents is not None and _has_values(contents)):
            raise InvalidRequest(
                f'input "{name}" has values, and parameter "{REGION}": send one of them'
            )
        found.append(RequestTensor(tensor.described, None, regions.read(part)))
        size += part.size
    return found, all(each.raw is not None for each in found), size


def _are_views(tensors: Sequence[RequestTensor]) -> bool:
    """Tell whether decoding takes no time, whatever the size."""
    return all(
        each.raw is not None and BY_NAME.get(each.described.datatype) not in REWRITTEN
        for each in tensors
    )


def _part(tensor: Proto, whose: str) -> RegionPart | None:
    given = tensor.parameters
    if REGION not in given:
        return None
    wanted = {name: given[name] for name in (REGION, BYTE_SIZE, OFFSET) if name in given}
    return part_of({REGION: "", **dict(_values(wanted))}, whose)


def _parts(outputs: Sequence[Proto], regions: Regions) -> Mapping[str, RegionPart]:
    found = {}
    for output in outputs:
        part = _part(output, f'output "{output.name[:SHOWN]}"') if output.parameters else None
        if part is not None:
            regions.check(part)
            found[output.name] = part
    return found


def _requested_outputs(outputs: Sequence[Proto]) -> tuple[str, ...]:
    """Give the names of the requested outputs. Raises: InvalidRequest."""
    if not outputs:  # most clients request all
        return ()
    if len(outputs) > MOST_PARAMETERS:
        raise InvalidRequest(f"{len(outputs)} outputs; at most {MOST_PARAMETERS} are taken")
    return unique((output.name for output in outputs), "output")


def _classes(outputs: Sequence[Proto]) -> Mapping[str, int] | None:
    found = {}
    for output in outputs:
        if CLASSIFICATION in output.parameters:
            value = dict(_values(output.parameters)).get(CLASSIFICATION)
            found[output.name] = number_of_classes(value, output.name)
    return found or None


def _parameters(given: Mapping[str, Proto], whose: str) -> dict[str, object]:
    """Read parameters by name. Raises: InvalidRequest: there are too many."""
    if not given:
        return {}
    if len(given) > MOST_PARAMETERS:
        raise InvalidRequest(f"{whose} has {len(given)} parameters; at most {MOST_PARAMETERS}")
    return dict(_values(given))


def _values(given: Mapping[str, Proto]) -> Iterable[tuple[str, object]]:
    for name, parameter in given.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice:
            yield name, getattr(parameter, choice)


def _decode(
    tensors: Sequence[RequestTensor],
    form: object,
    parameters: Mapping[str, object],
    signature: Signature,
) -> Decoded:
    """Decode all inputs; those that are raw may be views of the payload.

    Raises:
        InvalidRequest: values are none of their datatype or shape.
    """
    try:
        arrays = {each.described.name: _array(each, signature) for each in tensors}
    except InvalidTensor:
        if not any(spec.untyped for spec in signature.inputs.values()):
            raise
        arrays = {each.described.name: _untyped(each, signature) for each in tensors}
    if parameters:
        arrays.update(sequence_inputs(signature, parameters, arrays))
    return arrays, form


def _array(tensor: RequestTensor, signature: Signature) -> Array:
    described, contents, raw = tensor
    name = described.name[:SHOWN]
    dtype = datatype(described.datatype, name)
    check_datatype(signature, described.name, dtype)
    shape = checked_shape(described.shape, name)
    if raw is not None:
        if contents is not None and _has_values(contents):
            raise InvalidRequest(
                f'input "{name}" has both contents and raw_input_contents: send one of them, the'
                " same for all inputs"
            )
        return decode_raw(raw, dtype, shape, name)
    try:
        return decode_contents({} if contents is None else contents, dtype, shape, name)
    except ValueError as error:
        raise InvalidRequest(f'input "{name}": {error}') from error


def _untyped(tensor: RequestTensor, signature: Signature) -> Array:
    """Decode an input that may be untyped: one that is no array stays as it was sent."""
    described, contents, raw = tensor
    spec, word = signature.inputs.get(described.name), described.datatype
    if not (spec and spec.untyped) or BY_NAME.get(word) not in (None, *SENT):
        return _array(tensor, signature)
    shape = checked_shape(described.shape, described.name[:SHOWN])
    if raw is not None:
        return SentBuffer(raw, word, shape).array
    if BY_NAME.get(word) is not DataType.STRING or contents is None:
        return _array(tensor, signature)
    return SentBuffer(join_elements(texts_of(contents)), word, shape).array


def _has_values(contents: Proto | ContentPieces) -> bool:
    # Some clients send the message without a value in it.
    return bool(contents) if isinstance(contents, Mapping) else contents.ByteSize() > 0


class InferLayout(Layout[ModelInfer]):
    """See `Layout`.

    Args of the constructor:
        payload: payload of a request.
        request: its parsed message.
        walked: the offsets of its fields.
        tensors: its inputs, whose values are all in place.
    """

    __slots__ = ("_classes", "_dtypes", "_form", "_id", "_model", "_outputs", "_same", "_tensors")

    def __init__(
        self,
        payload: Encoded,
        request: ModelInfer,
        walked: WalkedRequest,
        tensors: list[TensorSpan],
    ) -> None:
        self._model = request.model
        self._outputs = request.output_filter
        self._form = request.form
        self._classes = request.classes
        self._dtypes: Mapping[str, DataType] = {
            each.rest.name: BY_NAME[each.rest.datatype] for each in walked.tensors
        }
        self._tensors = tensors
        # Its length must stay the same, its text may differ.
        self._id = walked.id
        texts = [(walked.id.value, walked.id.end)] if walked.id else []
        spans = [*((each.start, each.end) for each in tensors), *texts]
        self._same = list(between(payload, sorted(spans)))

    def read(self, payload: Encoded) -> ModelInfer | None:
        """See `Layout`."""
        for start, end, same in self._same:
            if payload[start:end] != same:
                return None
        id, field = b"", self._id
        if field is not None:
            id = bytes(payload[field.start : field.end])
            if not id.isascii():  # protobuf finds out whether it is UTF-8
                return None
        decode, size = partial(self._decode, payload), len(payload)
        return ModelInfer(
            self._model, "", decode, size, decode, self._outputs, None, id, self._classes
        )

    def _decode(self, payload: Encoded, signature: Signature) -> tuple[dict[str, Array], object]:
        arrays: dict[str, Array] = {}
        specs, dtypes = signature.inputs, self._dtypes
        for name, dtype, shape, start, _ in self._tensors:  # as for Predict
            spec = specs.get(name)
            if spec is not None and spec.dtype is not dtypes[name]:
                check_datatype(signature, name, dtypes[name])
            arrays[name] = np.ndarray(shape, dtype, payload, start)
        return arrays, self._form


class InferParser(RepeatedParser[ModelInfer]):
    """Parses ModelInferRequests, and remembers how those lie that come more than once."""

    def __init__(self, spec_of: SpecOf, regions: Regions = OFF) -> None:
        super().__init__()
        self._spec_of = spec_of
        self._regions = SmallParts(regions)

    def parse_anew(self, payload: Encoded) -> ModelInfer:
        """See `RepeatedParser`. Raises: as `infer_request.parse_soon`."""
        return parse_soon(self._spec_of, payload, self._regions.anew())

    def layout_of(self, payload: Encoded, request: ModelInfer) -> InferLayout:
        """See `RepeatedParser`."""
        walked = walk(memoryview(payload))
        found = ((each.rest.name, each) for each in walked.tensors)
        tensors, fixed = in_place(payload, request, found)
        if fixed:
            raise UnusualField
        return InferLayout(payload, request, walked, tensors)
