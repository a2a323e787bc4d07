"""Decodes ModelInferRequest to numpy.

As for Predict (`wire/tfs/predict.py`): protobuf parses a small request whole, and a large one
without the values of its tensors, which stay in the payload. Source: grpc_predict_v2.proto.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, NotSupported
from ie_serving.core.values.requests import Decoded, InferRequest, ModelSpec
from ie_serving.core.values.tensors import Array, DataType, Signature
from ie_serving.core.values.untyped import Sent
from ie_serving.wire.kserve.classes import CLASSIFICATION, number_of_classes
from ie_serving.wire.kserve.contents import Pieces, decode_contents, texts_of
from ie_serving.wire.kserve.datatypes import BY_NAME, datatype
from ie_serving.wire.kserve.infer_fields import ID, TensorFields, walk
from ie_serving.wire.kserve.inputs import (
    NOT_SERVED,
    SENT,
    check_datatype,
    sequence_inputs,
    unique,
)
from ie_serving.wire.kserve.raw import checked_shape, decode_raw, join_elements
from ie_serving.wire.protobuf import inference_messages as messages
from ie_serving.wire.protobuf import writing
from ie_serving.wire.protobuf.fields import Buffer
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.predict import LARGE
from ie_serving.wire.tfs.predict_fields import MOST_INPUTS
from ie_serving.wire.tfs.request_messages import parse

SpecOf: TypeAlias = Callable[[str, str], ModelSpec]
"""Which servable is meant by the name of a model and a version, which may be empty."""

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
        classes: how many classes, by the names of the outputs that are wanted as such; None where
            none are.
    """

    id: bytes = b""
    classes: Mapping[str, int] | None = None


class RequestTensor(NamedTuple):
    """One input whose values are not yet decoded.

    Attributes:
        described: an InferInputTensor: name, datatype, shape.
        contents: its typed values; None where it has none.
        raw: its bytes, in a raw request; else None.
    """

    described: Proto
    contents: Proto | Pieces | None
    raw: Buffer | None


def parse_soon(spec_of: SpecOf, payload: Buffer) -> ModelInfer:
    """Parse a ModelInferRequest, if that is quick.

    Args:
        spec_of: see `SpecOf`.
        payload: kept alive, unchanged, by the request and the arrays that it decodes.

    Raises:
        InvalidRequest: malformed, or against the rules of the protocol.
        NotSupported: it demands an unsupported feature.
        Unclear: a large request that protobuf has to parse.
    """
    if len(payload) < LARGE:
        return parse_whole(spec_of, payload)
    view = memoryview(payload)
    rest, id, tensors, is_raw = walk(view)
    field = bytes(view[id.start : id.end]) if id else b""
    return _request(spec_of, rest, [_split(view, each) for each in tensors], is_raw, field, payload)


def parse_whole(spec_of: SpecOf, payload: Buffer) -> ModelInfer:
    """Parse a ModelInferRequest with protobuf alone; see `parse_soon`."""
    message = parse(messages.ModelInferRequest, payload)
    inputs, raws = message.inputs, message.raw_input_contents
    # Before each of them costs microseconds: 64 KB have room for 30,000 empty ones.
    if len(inputs) > MOST_INPUTS:
        raise InvalidRequest(f"{len(inputs)} inputs; at most {MOST_INPUTS} are taken")
    if raws and len(raws) != len(inputs):
        raise InvalidRequest(
            f"raw_input_contents has {len(raws)} entries, and there are {len(inputs)} inputs:"
            " send one for each input, or none"
        )
    places: Sequence[bytes | None] = raws or [None] * len(inputs)
    tensors = [
        RequestTensor(each, each.contents if each.HasField("contents") else None, raw)
        for each, raw in zip(inputs, places, strict=True)
    ]
    id = writing.delimited(ID, message.id.encode()) if message.id else b""
    return _request(spec_of, message, tensors, bool(raws), id, payload)


def _split(payload: memoryview, tensor: TensorFields) -> RequestTensor:
    lists: Pieces | None = None
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
    payload: Buffer,
) -> ModelInfer:
    if not message.model_name:
        raise InvalidRequest("the request names no model: set model_name to a served model")
    model = spec_of(message.model_name, message.model_version)
    names = unique((each.described.name for each in tensors), "input")
    for name, tensor in zip(names, tensors, strict=True):
        _check_parameters(tensor.described, f'input "{name[:SHOWN]}"')
    parameters = _parameters(message.parameters, "the request")
    decode = partial(_decode, tensors, is_raw, parameters)
    outputs = _wanted(message.outputs)
    request = ModelInfer(model, "", decode, len(payload), output_filter=outputs, id=id)
    request.classes = _classes(message.outputs)
    return request


def _wanted(outputs: Sequence[Proto]) -> tuple[str, ...]:
    """Give the names of the requested outputs. Raises: InvalidRequest, NotSupported."""
    if not outputs:  # most clients request all
        return ()
    if len(outputs) > MOST_PARAMETERS:
        raise InvalidRequest(f"{len(outputs)} outputs; at most {MOST_PARAMETERS} are taken")
    for output in outputs:
        _check_parameters(output, f'output "{output.name[:SHOWN]}"')
    return unique((output.name for output in outputs), "output")


def _classes(outputs: Sequence[Proto]) -> Mapping[str, int] | None:
    found = {}
    for output in outputs:
        if CLASSIFICATION in output.parameters:
            value = dict(_values(output.parameters)).get(CLASSIFICATION)
            found[output.name] = number_of_classes(value, output.name)
    return found or None


def _check_parameters(tensor: Proto, whose: str) -> None:
    """Refuse parameters that this server would ignore. Raises: NotSupported."""
    parameters = tensor.parameters
    if not parameters:
        return
    for name in NOT_SERVED:
        if name in parameters:
            raise NotSupported(f'parameter "{name}" of {whose} is not supported')


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
    is_raw: bool,
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
    return arrays, is_raw


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
    is_text = BY_NAME.get(word) is DataType.STRING
    if not (spec and spec.untyped) or BY_NAME.get(word) not in (None, *SENT):
        return _array(tensor, signature)
    shape = checked_shape(described.shape, described.name[:SHOWN])
    if raw is not None:
        return Sent(raw, word, shape).array
    if not is_text or contents is None:
        return _array(tensor, signature)
    return Sent(join_elements(texts_of(contents)), word, shape).array


def _has_values(contents: Proto | Pieces) -> bool:
    # Some clients send the message without a value in it.
    return bool(contents) if isinstance(contents, Mapping) else contents.ByteSize() > 0
