"""PredictRequest -> numpy, and numpy -> PredictResponse. Source: predict.proto.

A small request is parsed by protobuf. In a large one the bulk of each tensor is found by walking
the wire format and stays where it is, in the payload; protobuf sees only the rest. Where that walk
meets anything unusual, protobuf parses the whole, so both ways accept and refuse the same bytes.
A reply is joined from bytes that are known beforehand and the memory of the outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from google.protobuf.message import DecodeError

from ie_serving.errors import InvalidRequest
from ie_serving.requests import ModelSpec
from ie_serving.server.wire import fields, messages
from ie_serving.server.wire.fields import DELIMITED, Buffer, Field, Unclear
from ie_serving.server.wire.messages import Proto
from ie_serving.server.wire.requests import model_spec_of, parse
from ie_serving.server.wire.tensor_encoder import TensorEncoder, size_of
from ie_serving.server.wire.tensor_proto import (
    CONTENT,
    LIST_OF,
    LISTS,
    Filling,
    ListField,
    SplitTensor,
    decode_tensor,
)
from ie_serving.tensors import BY_NUMBER, Array, Signature

LARGE = 1 << 16
"""Bytes from which walking the payload costs less than protobuf's copies."""

_SHAPES = 256
"""Shapes of one output whose bytes are remembered."""

_WIDTH = {fields.FIXED32: 4, fields.FIXED64: 8}

INPUTS = 2
_OUTPUTS = 1
_MODEL_SPEC = 2
KEY = 1
VALUE = 2


class PredictCall:
    """A PredictRequest whose tensors are decoded when they are asked for.

    Attributes:
        model: which servable it means.
        output_filter: aliases of the outputs to return; empty for all.
        decode_inputs: gives all inputs by alias, large ones as views of the payload. Raises
            InvalidTensor for a tensor that is not decodable, or lists that are filled up to more
            than `MOST_FILLED_BYTES` together; InvalidRequest for a list that is not validly
            encoded.
        in_place: whether that takes no time, however large they are.
    """

    __slots__ = ("decode_inputs", "in_place", "model", "output_filter")

    def __init__(
        self,
        model: ModelSpec,
        output_filter: tuple[str, ...],
        decode_inputs: Callable[[], dict[str, Array]],
        *,
        in_place: bool = False,
    ) -> None:
        self.model = model
        self.output_filter = output_filter
        self.decode_inputs = decode_inputs
        self.in_place = in_place


def call_of(request: Proto, tensors: Mapping[str, Proto | SplitTensor]) -> PredictCall:
    """Give the call of a parsed request and its inputs.

    Raises:
        InvalidRequest: it does not name a model.
    """
    model = model_spec_of(request)
    return PredictCall(model, tuple(request.output_filter), partial(_decode, tensors))


def _decode(tensors: Mapping[str, Proto | SplitTensor]) -> dict[str, Array]:
    filling = Filling()
    return {alias: decode_tensor(tensor, alias, filling) for alias, tensor in tensors.items()}


def parse_request(payload: Buffer) -> PredictCall:
    """Parse a PredictRequest.

    Args:
        payload: kept alive, unchanged, by the call and the arrays that it decodes.

    Raises:
        InvalidRequest: malformed, or without the name of a model.
    """
    if len(payload) >= LARGE:
        try:
            return _split(memoryview(payload))
        except Unclear:
            pass
    return parse_whole(payload)


def parse_whole(payload: Buffer) -> PredictCall:
    """Parse a PredictRequest with protobuf alone; see `parse_request`."""
    request = parse(messages.PredictRequest, payload)
    return call_of(request, request.inputs)


def _split(payload: memoryview) -> PredictCall:
    rest: list[memoryview] = []
    tensors: dict[str, Proto | SplitTensor] = {}
    for field in fields.scan(payload):
        if field.number == INPUTS and field.kind == DELIMITED:
            key, tensor = _split_entry(payload[field.value : field.end])
            tensors[key] = tensor
        else:
            rest.append(payload[field.start : field.end])
    return call_of(_parse_rest(messages.PredictRequest, rest), tensors)


def _split_entry(entry: memoryview) -> tuple[str, SplitTensor]:
    """Split one entry of the map of inputs.

    Raises:
        Unclear: it has anything but one key and one value, which is all that clients write.
    """
    found = {field.number: field for field in fields.scan(entry) if field.kind == DELIMITED}
    if found.keys() != {KEY, VALUE} or sum(f.end - f.start for f in found.values()) != len(entry):
        raise Unclear
    key, value = found[KEY], found[VALUE]
    try:
        alias = bytes(entry[key.value : key.end]).decode()
    except UnicodeDecodeError:
        raise Unclear from None
    return alias, _split_tensor(entry[value.value : value.end])


def _split_tensor(tensor: memoryview) -> SplitTensor:
    """Split one TensorProto.

    Raises:
        Unclear: it has values in other fields than the one that will be read and so checked.
    """
    rest: list[memoryview] = []
    content: Buffer = b""
    lists: dict[int, list[memoryview]] = {}
    for field in fields.scan(tensor):
        if field.number == CONTENT and field.kind == DELIMITED:
            content = tensor[field.value : field.end]
        elif _in_list(field):
            piece = tensor[field.value : field.end]
            lists.setdefault(field.number, []).append(_checked(piece, LISTS[field.number]))
        else:
            rest.append(tensor[field.start : field.end])
    proto = _parse_rest(messages.TensorProto, rest)
    dtype = BY_NUMBER.get(proto.dtype)
    if lists and (content or dtype is None or lists.keys() != {LIST_OF[dtype].number}):
        raise Unclear
    return SplitTensor(proto, content, lists)


def _in_list(field: Field) -> bool:
    """Tell whether a field is a list's values, packed or one of them alone."""
    listed = LISTS.get(field.number)
    return listed is not None and field.kind in (DELIMITED, listed.kind)


def _checked(piece: memoryview, listed: ListField) -> memoryview:
    """Give a piece of a list that ends where a value ends.

    Raises:
        Unclear: it does not, and joined with the next piece it would change its meaning.
    """
    cut_short = listed.kind == fields.VARINT and len(piece) and piece[-1] >= 0x80
    if cut_short or len(piece) % _WIDTH.get(listed.kind, 1):
        raise Unclear
    return piece


def _parse_rest(kind: Proto, pieces: Sequence[memoryview]) -> Proto:
    try:
        return kind.FromString(b"".join(pieces))
    except DecodeError:
        raise Unclear from None


class ResponseEncoder:
    """Encodes the replies of one version and signature.

    Args of the constructor:
        model: model name, as requests have it.
        version: number of the version that answers.
        signature: gives the outputs and their dtypes.
        tensor_content: raw bytes, or the typed lists.
    """

    def __init__(
        self, model: str, version: int, signature: Signature, *, tensor_content: bool = True
    ) -> None:
        spec = messages.ModelSpec(name=model, signature_name=signature.name)
        spec.version.value = version
        self._model_spec = fields.delimited(_MODEL_SPEC, spec.SerializeToString())
        self._outputs = {
            alias: _Output(alias, TensorEncoder(output.dtype, tensor_content=tensor_content))
            for alias, output in signature.outputs.items()
        }

    def filtered(self, output_filter: Sequence[str]) -> "ResponseEncoder":
        """Give an encoder of some outputs only; itself for an empty filter.

        Raises:
            InvalidRequest: an alias that the signature does not have, or has been named before.
        """
        if not output_filter:
            return self
        for place, alias in enumerate(output_filter):
            self._check_filter(alias, output_filter[:place])
        other = object.__new__(ResponseEncoder)
        other._model_spec = self._model_spec
        other._outputs = {alias: self._outputs[alias] for alias in output_filter}
        return other

    def _check_filter(self, alias: str, before: Sequence[str]) -> None:
        if alias not in self._outputs:
            known = ",".join(sorted(self._outputs))
            raise InvalidRequest(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in"
                f" the set {{{known}}}."
            )
        if alias in before:
            raise InvalidRequest(
                f"duplicate output tensor alias: {alias}; name each output once in output_filter"
            )

    def encode(self, outputs: Mapping[str, Array]) -> bytes:
        """Encode a PredictResponse.

        Args:
            outputs: at least the encoder's outputs. Nothing of them is kept.
        """
        pieces: list[Buffer] = []
        for alias, output in self._outputs.items():
            array = outputs[alias]
            body = output.encoder.body(array)
            pieces += (output.head(array.shape, size_of(body)), body)
        pieces.append(self._model_spec)
        return b"".join(pieces)


class _Output:
    """One output: its encoder, and what stands before its values in a reply."""

    __slots__ = ("_alias", "encoder", "head")

    def __init__(self, alias: str, encoder: TensorEncoder) -> None:
        self._alias = fields.delimited(KEY, alias.encode())
        self.encoder = encoder
        self.head = lru_cache(_SHAPES)(self._head)

    def _head(self, shape: tuple[int, ...], length: int) -> bytes:
        tensor = self.encoder.head(shape, length)
        value = fields.head(VALUE, len(tensor) + length)
        entry = len(self._alias) + len(value) + len(tensor) + length
        return fields.head(_OUTPUTS, entry) + self._alias + value + tensor
