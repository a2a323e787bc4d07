"""Decodes PredictRequest to numpy, and encodes PredictResponse. Source: predict.proto.

protobuf parses a small request. In a large one a walk over the wire format finds the values of each
tensor, which stay in the payload; protobuf parses only the rest. Where that walk meets unusual
bytes, protobuf parses the whole, so both ways accept and refuse the same bytes. A reply is joined
from bytes prepared beforehand and the memory of the outputs.

A stream's replies are PredictStreamResponse around such a reply. Source: streams.proto of this
project.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final, Protocol

import numpy as np

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import InferRequest
from ie_serving.core.values.tensors import Array, Signature, TensorSpec, present, specs_of
from ie_serving.wire.protobuf import fields, messages
from ie_serving.wire.protobuf.fields import Encoded, UnusualField, delimited, head, tag, varint
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.predict_fields import KEY, VALUE, walk
from ie_serving.wire.tfs.request_messages import model_spec_of, parse
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder
from ie_serving.wire.tfs.tensor_proto import FillBudget, SplitTensor, decode_tensor, missing_bytes

LARGE = 1 << 16
"""Bytes of a request from which walking it costs less than protobuf's copies; below, protobuf
parses all of it in C."""

_SHAPES: Final = 256
"""Shapes of one output for which the bytes before its values are cached, least recently used out.
Making these bytes takes some 2 us; each entry about 200 bytes."""

_FORMS: Final = 64
"""Names and dtypes of open outputs whose encoders are cached, least recently used out."""

ANY_SIGNATURE: Final = Signature("", {}, {})
"""Signature to decode any inputs for: a TensorProto has its own dtype and shape."""

_OUTPUTS: Final = 1
_MODEL_SPEC: Final = 2
"""Field numbers of PredictResponse."""


def request_of(
    message: Proto, tensors: Mapping[str, Proto | SplitTensor], size: int
) -> InferRequest:
    """Give the request of a parsed PredictRequest and its inputs.

    Args:
        message: all of it but the bulk of its inputs.
        tensors: its inputs by alias.
        size: value of `InferRequest.size`.

    Raises:
        InvalidRequest: it does not name a model.
    """
    model = model_spec_of(message)
    output_filter = tuple(message.output_filter)
    decode = partial(_decode, tensors)
    return InferRequest(model, model.signature, decode, size, output_filter=output_filter)


def _decode(
    tensors: Mapping[str, Proto | SplitTensor], _: Signature
) -> tuple[dict[str, Array], None]:
    """Decode all inputs, large ones as views of the payload; each tensor says its own dtype.

    Raises:
        InvalidTensor: a tensor is not decodable, or lists are filled up to more than
            `MOST_FILLED_BYTES` together.
        InvalidRequest: a list is not validly encoded.
    """
    filling = FillBudget()
    arrays = {alias: decode_tensor(tensor, alias, filling) for alias, tensor in tensors.items()}
    return arrays, None


def parse_request(payload: Encoded) -> InferRequest:
    """Parse a PredictRequest.

    Args:
        payload: kept alive, unchanged, by the request and the arrays that it decodes.

    Raises:
        InvalidRequest: malformed, or without the name of a model.
    """
    try:
        return parse_soon(payload)
    except UnusualField:
        return parse_whole(payload)


def parse_soon(payload: Encoded) -> InferRequest:
    """Parse a PredictRequest as `parse_request` does, if that takes no time.

    Raises:
        InvalidRequest: malformed, or without the name of a model.
        UnusualField: a large one that is for protobuf to parse.
    """
    if len(payload) < LARGE:
        return parse_whole(payload)
    # protobuf would copy each tensor twice: out of the payload, and out of its message.
    return _split(memoryview(payload))


def parse_whole(payload: Encoded) -> InferRequest:
    """Parse a PredictRequest with protobuf alone; see `parse_request`."""
    request = parse(messages.PredictRequest, payload)
    tensors = request.inputs
    # A few bytes can demand a tensor of 64 MB, whose memory takes 20 ms or more to touch.
    missing = sum(map(missing_bytes, tensors.values()))
    return request_of(request, tensors, len(payload) + missing)


def _split(payload: memoryview) -> InferRequest:
    message, tensors = walk(payload)
    split = {alias: tensor.split(payload) for alias, tensor in tensors.items()}
    missing = sum([tensor.missing_bytes() for tensor in split.values()])
    return request_of(message, split, len(payload) + missing)


class ResponseEncoder:
    """Encodes the replies of one version and signature.

    Args of the constructor:
        model: model name, as requests have it.
        version: number of the version that answers.
        signature: gives the dtypes of the outputs.
        outputs: aliases of those that the replies have; None for all.
        tensor_content: raw bytes, or the typed lists.
    """

    def __init__(
        self,
        model: str,
        version: int,
        signature: Signature,
        outputs: Sequence[str] | None = None,
        *,
        tensor_content: bool = True,
    ) -> None:
        spec = messages.ModelSpec(name=model, signature_name=signature.name)
        spec.version.value = version
        self._model_spec = fields.delimited(_MODEL_SPEC, spec.SerializeToString())
        self._outputs = {
            alias: _ResponseOutput(
                alias, _encoder(signature.outputs[alias], tensor_content=tensor_content)
            )
            for alias in (signature.outputs if outputs is None else outputs)
        }

    def encode(self, outputs: Mapping[str, Array]) -> bytes:
        """Encode a PredictResponse.

        Args:
            outputs: outputs of the encoder, or more. Nothing of them is kept.
        """
        pieces: list[Encoded] = []
        for alias, output in self._outputs.items():
            array = outputs[alias]
            if output.in_memory is not None:  # here and not in `body`: nearly every output is so
                body: Encoded = np.ascontiguousarray(array, output.in_memory).data
            else:
                body = output.encoder.body(array)
            # `size_of` would be a call more for each output of each reply.
            length = body.nbytes if type(body) is memoryview else len(body)
            pieces += (output.head(array.shape, length), body)
        pieces.append(self._model_spec)
        return b"".join(pieces)


class Encoder(Protocol):
    """Encodes replies."""

    def encode(self, outputs: Mapping[str, Array], /) -> bytes:
        """Encode the message of a reply; nothing of the outputs is kept."""


class OpenEncoder:
    """Encodes the replies of a signature whose outputs are known only when they come.

    Args of the constructor:
        signature: signature of the replies.
        outputs: aliases of the outputs to reply with; empty for all.
        made: gives the encoder for that signature with the actual outputs.
    """

    def __init__(
        self, signature: Signature, outputs: Sequence[str], made: Callable[[Signature], Encoder]
    ) -> None:
        self._wanted = tuple(outputs)
        self._signature = signature
        self._made = made
        self._encoder = lru_cache(_FORMS)(self._encoder_of)
        # Both values are one attribute: replies may be encoded in several threads.
        self._latest: tuple[list[tuple[str, np.dtype[np.generic]]], Encoder] | None = None

    def encode(self, outputs: Mapping[str, Array]) -> bytes:
        """Encode a reply. Raises: InvalidRequest where there is no such output."""
        wanted = present(chosen(outputs, self._wanted))
        kinds = [(name, array.dtype) for name, array in wanted.items()]
        latest = self._latest
        if latest is None or latest[0] != kinds:  # to hash dtypes takes longer than this
            latest = self._latest = kinds, self._encoder(tuple(kinds))
        return latest[1].encode(wanted)

    def _encoder_of(self, kinds: tuple[tuple[str, "np.dtype[np.generic]"], ...]) -> Encoder:
        empty = {name: np.empty(0, dtype) for name, dtype in kinds}
        return self._made(replace(self._signature, outputs=specs_of(empty)))


def chosen(outputs: Mapping[str, Array], wanted: Sequence[str]) -> Mapping[str, Array]:
    """Give the outputs of a filter; all, where it is empty.

    Raises:
        InvalidRequest: one of them did not come, in the phrase that a filter meets elsewhere.
    """
    if not wanted:
        return outputs
    for alias in wanted:
        if alias not in outputs:
            raise InvalidRequest(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in"
                f" the set {{{','.join(sorted(outputs))}}}."
            )
    return {alias: outputs[alias] for alias in wanted}


def _encoder(spec: TensorSpec, *, tensor_content: bool) -> TensorEncoder:
    """Give the encoder of an output.

    The server's own outputs go into the typed list: clients of OpenVINO Model Server read the id of
    a sequence there, never from `tensor_content`.
    """
    return TensorEncoder(spec.dtype, tensor_content=tensor_content and not spec.apart)


class _ResponseOutput:
    """One output: its encoder, and the bytes before its values in a reply.

    Attributes:
        encoder: encoder of its values.
        in_memory: value of `TensorEncoder.in_memory`.
        head: gives the bytes before the values for a shape and a length; caches the latest.
    """

    __slots__ = ("_alias", "encoder", "head", "in_memory")

    def __init__(self, alias: str, encoder: TensorEncoder) -> None:
        self._alias = fields.delimited(KEY, alias.encode())
        self.encoder = encoder
        self.in_memory = encoder.in_memory
        # A cache for each output, since one for all would need the output in its key.
        self.head = lru_cache(_SHAPES)(self._head)

    def _head(self, shape: tuple[int, ...], length: int) -> bytes:
        tensor = self.encoder.head(shape, length)
        value = fields.head(VALUE, len(tensor) + length)
        entry = len(self._alias) + len(value) + len(tensor) + length
        return fields.head(_OUTPUTS, entry) + self._alias + value + tensor


_RESPONSE, _ERROR, _INDEX, _DROPPED = 1, 2, 3, 4
_CODE, _MESSAGE = 1, 2
_VARINT = 0


def encode_response(response: bytes, index: int, dropped: int) -> bytes:
    """Encode the reply to a request: a PredictResponse that is encoded already."""
    return b"".join((head(_RESPONSE, len(response)), response, _numbers(index, dropped)))


def encode_error(code: Code, text: str, index: int, dropped: int) -> bytes:
    """Encode the error of a request."""
    error = _number(_CODE, code.value) + delimited(_MESSAGE, text.encode())
    return delimited(_ERROR, error) + _numbers(index, dropped)


def _numbers(index: int, dropped: int) -> bytes:
    return _number(_INDEX, index) + _number(_DROPPED, dropped)


def _number(field: int, value: int) -> bytes:
    # protobuf leaves a field of value 0 out.
    return tag(field, _VARINT) + varint(value) if value else b""
