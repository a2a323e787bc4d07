"""Reads PredictRequests that repeat an earlier one in everything but the values of their tensors.

Clients send the same request again and again with other numbers. Where every byte outside of those
numbers is unchanged, protobuf would find the same fields at the same offsets: so the values are
read there, without parsing. A request that differs in another byte is parsed as if for the first
time. Numbers whose encoding is not their memory, such as varints in `int64_val`, count as such
other bytes, up to `MOST_BYTES` of them.

The cache does not depend on the message: requests of the Open Inference Protocol use it as well.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.tensors import Array, Arrays, Signature
from ie_serving.wire.protobuf.fields import Encoded, Field, UnusualField
from ie_serving.wire.tfs.predict import ANY_SIGNATURE, parse_soon
from ie_serving.wire.tfs.predict_fields import walk

R = TypeVar("R")

MOST_LAYOUTS = 256
"""Layouts that a parser remembers, of at most `MOST_BYTES` each. The oldest is forgotten for a new
one; its requests are then parsed, some 20 us each, until they have come twice more."""
MOST_BYTES: Final = 2048
"""Most bytes that a remembered layout has beside the values, and most bytes of its fixed values. A
request with more, by many inputs, long names or lists of integers, is parsed each time."""

LayoutKey = tuple[int, bytes]
"""Length of a request, and its first field, which is the name of the model in all clients."""


class TensorSpan(NamedTuple):
    """The span of one tensor's values, their dtype and shape."""

    alias: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    start: int
    end: int


class PlacedTensor(Protocol):
    """One tensor of a request that was taken apart."""

    def in_place(self) -> Field | None:
        """Give the only field whose bytes equal numpy's memory of the values, if there is one."""


class Layout(Generic[R]):
    """The common part of requests that differ only in the values of their tensors.

    Attributes:
        fixed: the tensors whose values must be the same, by alias.
    """

    __slots__ = ()
    fixed: Arrays = MappingProxyType({})

    def read(self, payload: Encoded) -> R | None:
        """Read a request of the length that this layout is of; None where it is another."""
        raise NotImplementedError


class _SeenCount(enum.Enum):
    """Counts of requests without a layout."""

    ONCE = enum.auto()
    """Came once. Looking for a layout costs as much as parsing, so it waits for the second time."""
    UNFIT = enum.auto()
    """Has no layout; it is not looked for again."""


class RepeatedParser(Generic[R]):
    """Parses requests, and remembers how those lie that come more than once."""

    def __init__(self) -> None:
        self._layouts: dict[LayoutKey, Layout[R] | _SeenCount] = {}

    def __len__(self) -> int:
        """Count the requests that something is remembered of."""
        return len(self._layouts)

    def parse(self, payload: Encoded) -> R:
        """Parse one request. Raises: as `parse_anew`."""
        # A message begins with a field's number and length, one byte each, so the key holds the
        # whole first field. Where that is longer than 127 bytes the second byte is only part of the
        # length, and the key holds some other stretch of the message. That is as good:
        # `Layout.read` compares all of the message, and the key only chooses which one to compare.
        length = len(payload)
        key = (length, bytes(payload[: payload[1] + 2 if length > 1 else 0]))
        known = self._layouts.get(key)
        if isinstance(known, Layout):
            request = known.read(payload)
            if request is not None:
                return request
        request = self.parse_anew(payload)
        self._learn(key, known, payload, request)
        return request

    # What a subclass does.

    def parse_anew(self, payload: Encoded) -> R:
        """Parse a request without a layout."""
        raise NotImplementedError

    def layout_of(self, payload: Encoded, request: R) -> Layout[R]:
        """Find where a request's values lie.

        Args:
            payload: payload of a request that was parsed.
            request: result of parsing it.

        Raises:
            UnusualField, ServingError: not all of them can be taken from there.
        """
        raise NotImplementedError

    # The oldest is evicted, not the least recently used, which would cost a move at each request. A
    # request that a layout did not fit comes here too, and counts as new: the client has changed
    # its request.
    def _learn(
        self, key: LayoutKey, known: Layout[R] | _SeenCount | None, payload: Encoded, request: R
    ) -> None:
        if known is _SeenCount.UNFIT:
            return
        if known is None and len(self._layouts) >= MOST_LAYOUTS:
            del self._layouts[next(iter(self._layouts))]
        if isinstance(known, Layout) and known.fixed:  # clients change what seemed to be fixed
            self._layouts[key] = _SeenCount.UNFIT
            return
        self._layouts[key] = _SeenCount.ONCE
        if known is _SeenCount.ONCE:
            try:
                self._layouts[key] = self.layout_of(payload, request)
            except (UnusualField, ServingError):
                self._layouts[key] = _SeenCount.UNFIT


def in_place(
    payload: Encoded, request: InferRequest, found: Iterable[tuple[str, PlacedTensor]]
) -> tuple[list[TensorSpan], dict[str, Array]]:
    """List the tensors of a request in the order of their offsets; give the others by alias.

    Raises:
        UnusualField: there is much beside the values that can be taken from the payload.
        ServingError: they cannot be decoded.
    """
    fields = {alias: field for alias, tensor in found if (field := tensor.in_place()) is not None}
    # Decoding takes long for tensors that are not in place.
    if request.size - sum(field.end - field.value for field in fields.values()) > MOST_BYTES:
        raise UnusualField
    arrays, _ = request.decode(ANY_SIGNATURE)
    tensors = [
        TensorSpan(alias, arrays[alias].dtype, arrays[alias].shape, field.value, field.end)
        for alias, field in fields.items()
        # A list that is filled up or cut off has another number of bytes than its array.
        if arrays[alias].nbytes == field.end - field.value
    ]
    others = {alias: arrays[alias] for alias in arrays.keys() - {each.alias for each in tensors}}
    kept = sum(array.nbytes for array in others.values())
    # Surplus values of a tensor are cut off, but count as bytes beside the values.
    beside = request.size - sum(tensor.end - tensor.start for tensor in tensors)
    if max(kept, beside) > MOST_BYTES or any(a.dtype.hasobject for a in others.values()):
        raise UnusualField
    # Copies, since they outlive the payload; read-only, as views of a payload are.
    fixed = {alias: np.ndarray(a.shape, a.dtype, a.tobytes()) for alias, a in others.items()}
    # The later of two entries with one alias counts, at the position of the earlier one.
    return sorted(tensors, key=lambda tensor: tensor.start), fixed


def between(payload: Encoded, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the bytes before, between and after `spans`, each with its start and end."""
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(payload)]
    for start, end in zip(starts, ends, strict=True):
        if start < end:
            yield start, end, bytes(payload[start:end])


class PredictLayout(Layout[InferRequest]):
    """See `Layout`."""

    __slots__ = ("_model", "_output_filter", "_same", "_tensors", "fixed")
    fixed: dict[str, Array]

    def __init__(
        self,
        payload: Encoded,
        request: InferRequest,
        tensors: list[TensorSpan],
        fixed: dict[str, Array],
    ) -> None:
        self._model: ModelSpec = request.model
        self._output_filter = request.output_filter
        self.fixed = fixed
        self._tensors = tensors
        self._same = list(between(payload, [(each.start, each.end) for each in tensors]))

    def read(self, payload: Encoded) -> InferRequest | None:
        """See `Layout`."""
        for start, end, same in self._same:
            if payload[start:end] != same:
                return None
        decode = partial(self._decode, payload)
        model = self._model
        size = len(payload)
        return InferRequest(model, model.signature, decode, size, decode, self._output_filter)

    def _decode(self, payload: Encoded, signature: Signature) -> tuple[dict[str, Array], None]:
        arrays = self.fixed.copy()
        for alias, dtype, shape, start, _ in self._tensors:  # a comprehension is one call more
            arrays[alias] = np.ndarray(shape, dtype, payload, start)
        return arrays, None


class RequestParser(RepeatedParser[InferRequest]):
    """Parses PredictRequests, and remembers how those lie that come more than once."""

    def parse_anew(self, payload: Encoded) -> InferRequest:
        """See `RepeatedParser`. Raises: as `predict.parse_soon`."""
        return parse_soon(payload)

    def layout_of(self, payload: Encoded, request: InferRequest) -> PredictLayout:
        """See `RepeatedParser`."""
        _, found = walk(memoryview(payload))
        return PredictLayout(payload, request, *in_place(payload, request, found.items()))
