"""PredictRequests that repeat an earlier one in everything but the values of their tensors.

Clients send the same request again and again with other numbers. Where every byte outside of those
numbers is as it was, protobuf would find the same fields at the same places: so they are taken from
there, without parsing. Whatever differs in a single other byte is parsed as if for the first time.
"""

import enum
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ie_serving.errors import ServingError
from ie_serving.requests import ModelSpec
from ie_serving.server.wire import fields, messages
from ie_serving.server.wire.fields import DELIMITED, Buffer, Field, Unclear
from ie_serving.server.wire.predict import INPUTS, KEY, VALUE, PredictCall, parse_request
from ie_serving.server.wire.tensor_proto import CONTENT, LIST_OF, LISTS
from ie_serving.tensors import BY_NUMBER, Array, DataType

MOST_LAYOUTS = 256
"""Layouts that are remembered; the oldest is forgotten for a new one."""
MOST_BYTES = 2048
"""Bytes beside the values that a remembered layout may have."""

_CONVERTED = (None, DataType.BOOL, DataType.BF16, DataType.STRING)
"""Whose values do not lie on the wire as in memory."""

_FIXED_LIST_OF = {dtype: LIST_OF[dtype].number for dtype in (DataType.FP32, DataType.FP64)}
"""Whose lists hold values as in memory."""

Key = tuple[int, bytes]


class _Values(NamedTuple):
    """Where the values of one tensor lie, and what they are."""

    alias: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    start: int
    end: int


class Layout:
    """What all requests have in common that differ in the values of their tensors only."""

    __slots__ = ("_model", "_output_filter", "_same", "_tensors")

    def __init__(self, payload: Buffer, call: PredictCall, tensors: list[_Values]) -> None:
        self._model: ModelSpec = call.model
        self._output_filter = call.output_filter
        self._tensors = tensors
        self._same = list(_between(payload, tensors))

    def read(self, payload: Buffer) -> PredictCall | None:
        """Read a request of the length that this layout is of; None where it is another."""
        for start, end, same in self._same:
            if payload[start:end] != same:
                return None
        decode = partial(self._decode, payload)
        return PredictCall(self._model, self._output_filter, decode, in_place=True)

    def _decode(self, payload: Buffer) -> dict[str, Array]:
        return {
            alias: np.ndarray(shape, dtype, payload, start)
            for alias, dtype, shape, start, _ in self._tensors
        }


class _Seen(enum.Enum):
    """What is known of requests without a layout."""

    ONCE = enum.auto()
    UNFIT = enum.auto()


class RequestParser:
    """Parses PredictRequests, and remembers how those lie that come more than once."""

    def __init__(self) -> None:
        self._layouts: dict[Key, Layout | _Seen] = {}

    def parse(self, payload: Buffer) -> PredictCall:
        """Parse one request; see `predict.parse_request`."""
        key = _key(payload)
        known = self._layouts.get(key)
        call = known.read(payload) if isinstance(known, Layout) else None
        if call is None:
            call = parse_request(payload)
            self._learn(key, known, payload, call)
        return call

    def _learn(
        self, key: Key, known: Layout | _Seen | None, payload: Buffer, call: PredictCall
    ) -> None:
        if known is _Seen.UNFIT:
            return
        if known is None and len(self._layouts) >= MOST_LAYOUTS:
            del self._layouts[next(iter(self._layouts))]
        if known is _Seen.ONCE:
            self._layouts[key] = layout_of(payload, call) or _Seen.UNFIT
        else:
            self._layouts[key] = _Seen.ONCE


def layout_of(payload: Buffer, call: PredictCall) -> Layout | None:
    """Find where a request's values lie; None where not all of them can be taken from there.

    Args:
        payload: of a request that was parsed.
        call: what it was parsed to.
    """
    try:
        found = list(_tensors(memoryview(payload)))
        arrays = call.decode_inputs()
    except (Unclear, ServingError):
        return None
    tensors = [
        _Values(alias, arrays[alias].dtype, arrays[alias].shape, field.value, field.end)
        for alias, field in found
        if arrays[alias].nbytes == field.end - field.value
    ]
    beside = len(payload) - sum(tensor.end - tensor.start for tensor in tensors)
    if len(found) != len(arrays) or len(tensors) != len(arrays) or beside > MOST_BYTES:
        return None
    return Layout(payload, call, tensors)


def _key(payload: Buffer) -> Key:
    """Give what layouts are looked up by: the length, and the model if it stands first."""
    first = payload[1] + 2 if len(payload) > 1 else 0
    return len(payload), bytes(payload[:first])


def _between(payload: Buffer, tensors: list[_Values]) -> Iterator[tuple[int, int, bytes]]:
    """Yield what stands before, between and after the values: from where, to where, and what."""
    starts = [0, *(tensor.end for tensor in tensors)]
    ends = [*(tensor.start for tensor in tensors), len(payload)]
    for start, end in zip(starts, ends, strict=True):
        if start < end:
            yield start, end, bytes(payload[start:end])


def _tensors(payload: memoryview) -> Iterator[tuple[str, Field]]:
    """Find the field that holds the values of each input.

    Raises:
        Unclear: they do not lie in one piece, as they are in memory.
    """
    for entry in _found(payload, 0, len(payload), INPUTS):
        key = _only(payload, entry, KEY)
        tensor = _only(payload, entry, VALUE)
        yield bytes(payload[key.value : key.end]).decode(), _values(payload, tensor)


def _values(payload: memoryview, tensor: Field) -> Field:
    """Find the one field of a TensorProto that holds values."""
    found: list[Field] = []
    rest: list[memoryview] = []
    for field in _found(payload, tensor.value, tensor.end):
        if field.number == CONTENT or field.number in LISTS:
            found.append(field)
        else:
            rest.append(payload[field.start : field.end])
    dtype = BY_NUMBER.get(messages.TensorProto.FromString(b"".join(rest)).dtype)
    if len(found) != 1 or found[0].kind != DELIMITED or dtype in _CONVERTED:
        raise Unclear
    if found[0].number != CONTENT and found[0].number != _FIXED_LIST_OF.get(dtype):
        raise Unclear
    return found[0]


def _only(payload: memoryview, parent: Field, number: int) -> Field:
    """Find the one field of that number, delimited; all others are of another number."""
    found = list(_found(payload, parent.value, parent.end, number))
    if len(found) != 1 or found[0].kind != DELIMITED:
        raise Unclear
    return found[0]


def _found(payload: memoryview, start: int, end: int, number: int | None = None) -> Iterator[Field]:
    """Yield the fields of a message inside the payload, with their places in the payload."""
    for field in fields.scan(payload[start:end]):
        if number in (None, field.number):
            yield Field(
                field.number,
                field.kind,
                field.start + start,
                field.value + start,
                field.end + start,
            )
