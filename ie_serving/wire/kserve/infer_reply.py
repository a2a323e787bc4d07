"""Encodes numpy outputs to the bytes of a ModelInferResponse, without making a message.

As Predict's replies: joined from bytes prepared beforehand and the memory of the outputs.
Source: grpc_predict_v2.proto.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from ie_serving.core.values.tensors import Array, DataType, TensorSpec, present
from ie_serving.wire.kserve.contents import LIST_OF
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.kserve.raw import join_elements, untyped_tensor
from ie_serving.wire.kserve.regions import ReplyRegions
from ie_serving.wire.protobuf import fields
from ie_serving.wire.protobuf import inference_messages as messages
from ie_serving.wire.protobuf.fields import Encoded
from ie_serving.wire.tfs.predict import chosen
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder, size_of

_MODEL: Final = 1
_VERSION: Final = 2
_OUTPUT: Final = 5
_RAW: Final = 6
"""Field numbers of ModelInferResponse."""
_NAME: Final = 1
_DATATYPE: Final = 2
_SHAPE: Final = 3
_CONTENTS: Final = 5
"""Field numbers of InferOutputTensor."""

_SHAPES: Final = 256
"""Shapes of one output for which the bytes before its values are remembered, the latest used, as
for Predict."""


class GrpcReplyEncoder:
    """Encodes the replies of one version.

    Args of the constructor:
        model: model name, as requests have it.
        version: number of the version that answers.
        specs: specs of the outputs that the replies have, by alias.
        raw: outputs are in `raw_output_contents`; else typed, unless one of them can only be raw.
    """

    def __init__(
        self, model: str, version: int, specs: Mapping[str, TensorSpec], *, raw: bool
    ) -> None:
        name, number = model.encode(), str(version).encode()
        self._start = fields.delimited(_MODEL, name) + fields.delimited(_VERSION, number)
        # All or nothing: a reply is raw as a whole, or has no raw contents.
        is_raw = raw or any(spec.dtype not in LIST_OF for spec in specs.values())
        self._outputs = {
            alias: _ReplyOutput(alias, spec.dtype, raw=is_raw) for alias, spec in specs.items()
        }

    def encode(self, outputs: Mapping[str, Array]) -> bytes:
        """Encode a ModelInferResponse without an id, which may stand behind it.

        Args:
            outputs: outputs of the encoder, or more. Nothing of them is kept.
        """
        pieces: list[Encoded] = [self._start]
        for alias, output in self._outputs.items():
            array = outputs[alias]
            if output.in_memory is not None:  # as for Predict, nearly every output is so
                body: Encoded = np.ascontiguousarray(array, output.in_memory).data
            else:
                body = output.body(array)
            length = body.nbytes if type(body) is memoryview else len(body)
            pieces += (output.head(array.shape, length), body)
        return b"".join(pieces)


def encode_in_regions(
    model: str,
    version: int,
    specs: Mapping[str, TensorSpec],
    form: ReplyRegions,
    outputs: Mapping[str, Array],
) -> bytes:
    """Write some outputs to regions, and encode a ModelInferResponse; see `GrpcReplyEncoder`.

    Raises:
        InvalidRequest, NotFound: as `ReplyRegions.write`.
    """
    told = form.write(specs, outputs)
    # An output in a region has raw contents without bytes, as in Triton.
    rest = [spec for alias, spec in specs.items() if alias not in told]
    is_raw = form.raw or any(spec.dtype not in LIST_OF for spec in rest)
    pieces = []  # messages behind each other are one: their lists are joined
    for alias, spec in specs.items():
        if alias not in told:
            one = GrpcReplyEncoder(model, version, {alias: spec}, raw=is_raw)
            pieces.append(one.encode(outputs))
            continue
        reply = messages.ModelInferResponse(model_name=model, model_version=str(version))
        output = reply.outputs.add(
            name=alias, datatype=NAME_OF[spec.dtype], shape=outputs[alias].shape
        )
        for name, value in told[alias].items():
            choice = "string_param" if isinstance(value, str) else "int64_param"
            setattr(output.parameters[name], choice, value)
        if is_raw:
            reply.raw_output_contents.append(b"")
        pieces.append(reply.SerializeToString())
    return b"".join(pieces)


class OpenGrpcReplyEncoder:
    """Encodes replies of untyped outputs, raw; see `core/values/tensors.py`.

    Args of the constructor:
        model: model name, as requests have it.
        version: number of the version that answers.
        wanted: aliases of the outputs to reply with; empty for all.
    """

    def __init__(self, model: str, version: int, wanted: Sequence[str]) -> None:
        name, number = model.encode(), str(version).encode()
        self._start = fields.delimited(_MODEL, name) + fields.delimited(_VERSION, number)
        self._wanted = wanted

    def encode(self, outputs: Mapping[str, Array]) -> bytes:
        """Encode as `GrpcReplyEncoder`. Raises: InvalidRequest where there is no such output."""
        pieces: list[Encoded] = [self._start]
        for alias, array in present(chosen(outputs, self._wanted)).items():
            word, shape, body = untyped_tensor(array)
            described = fields.delimited(_NAME, alias.encode())
            described += fields.delimited(_DATATYPE, word.encode())
            if shape:
                described += fields.delimited(_SHAPE, b"".join(map(fields.varint, shape)))
            head = fields.delimited(_OUTPUT, described) + fields.head(_RAW, size_of(body))
            pieces += (head, body)
        return b"".join(pieces)


class _ReplyOutput:
    """One output: its encoder, and the bytes before its values in a reply.

    Attributes:
        in_memory: value of `TensorEncoder.in_memory`.
        head: gives the bytes before the values for a shape and a length; caches the latest.
    """

    __slots__ = ("_described", "_encoder", "_list", "_raw", "_string", "head", "in_memory")

    def __init__(self, alias: str, dtype: DataType, *, raw: bool) -> None:
        name = NAME_OF[dtype].encode()
        self._described = fields.delimited(_NAME, alias.encode()) + fields.delimited(
            _DATATYPE, name
        )
        self._raw = raw
        self._list = 0 if raw else LIST_OF[dtype].number
        self._string = dtype is DataType.STRING
        # Packed lists of integers have the same bytes as TensorFlow's, whatever their field.
        self._encoder = TensorEncoder(dtype, tensor_content=raw)
        self.in_memory = self._encoder.in_memory
        self.head = lru_cache(_SHAPES)(self._head)

    def body(self, array: Array) -> Encoded:
        """Encode the values; see `TensorEncoder.body`."""
        if not self._string:
            return self._encoder.body(array)
        elements = array.reshape(-1).tolist()
        return join_elements(elements) if self._raw else fields.strings(self._list, elements)

    def _head(self, shape: tuple[int, ...], length: int) -> bytes:
        sizes = b"".join(map(fields.varint, shape))
        described = self._described + (fields.delimited(_SHAPE, sizes) if sizes else b"")
        # Raw contents are a list of their own, in the order of the outputs: each may stand directly
        # behind its output.
        if self._raw:
            return fields.delimited(_OUTPUT, described) + fields.head(_RAW, length)
        # Each string has its own tag in the body; and an empty list is one that is absent.
        packed = b"" if self._string or not length else fields.head(self._list, length)
        contents = fields.head(_CONTENTS, len(packed) + length) + packed
        return fields.head(_OUTPUT, len(described) + len(contents) + length) + described + contents
