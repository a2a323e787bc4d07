"""Reads a request without JSON: its body is the values of its only input.

Source: "Raw Binary Request" of Triton's binary data extension.
"""

import math
from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import Decoded
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec, strings
from ie_serving.wire.kserve.raw import decode_raw
from ie_serving.wire.kserve.request_members import EVERYTHING_RAW, RequestedOutputs
from ie_serving.wire.tfs.tensor_proto import BITS

_OPEN: Final = -1


class RawBody:
    """The body of such a request; the reply is raw as well."""

    id: bytes | None = None
    wanted: RequestedOutputs = EVERYTHING_RAW
    outputs: tuple[str, ...] = ()

    def __init__(self, body: bytes | memoryview) -> None:
        self._body = body

    def decode(self, signature: Signature) -> Decoded:
        """Decode the input. Raises: InvalidRequest: its shape does not follow from the bytes."""
        return _arrays(self._body, signature), self.wanted.form

    def decode_at_once(self, _: Signature) -> None:
        """Give None: only large bodies come here, and may need conversion."""


def _arrays(body: bytes | memoryview, signature: Signature) -> Mapping[str, Array]:
    needed = [spec for name, spec in signature.inputs.items() if name not in signature.defaults]
    if len(needed) != 1:
        raise InvalidRequest(
            f"a request without JSON is for models of one input, and this one has {len(needed)}:"
            " name them in JSON, and tell its length by Inference-Header-Content-Length"
        )
    (spec,) = needed
    if spec.dtype is DataType.STRING:
        return {spec.name: strings([bytes(body)]).reshape(_shape(spec, 1, 1))}
    size = BITS.get(spec.dtype, spec.dtype.numpy).itemsize
    shape = _shape(spec, len(body), size)
    return {spec.name: decode_raw(body, spec.dtype, shape, spec.name)}


def _shape(spec: TensorSpec, length: int, size: int) -> tuple[int, ...]:
    """Find the one size that is open. Raises: InvalidRequest."""
    declared = (_OPEN,) if spec.shape is None else spec.shape
    known = math.prod(each for each in declared if each != _OPEN) * size
    if declared.count(_OPEN) > 1 or not known or length % known:
        raise InvalidRequest(
            f"the shape of input {spec} does not follow from the {length} bytes of the request:"
            " tell it in JSON, whose length is in Inference-Header-Content-Length"
        )
    return tuple(length // known if each == _OPEN else each for each in declared)
