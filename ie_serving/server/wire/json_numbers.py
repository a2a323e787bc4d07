"""Arrays of plain numbers straight from simdjson's buffers: no Python object for an element.

`as_buffer` flattens whatever nesting it finds, so the shape is checked beside it: all arrays of a
level have one length, and the body holds no more opening brackets than that shape needs. So no
array can hide where a number is expected. A body that has brackets elsewhere (in a string, under
another key) is not wrong; it takes the slower way, as everything does for which the answer here
is None.
"""

import warnings
from typing import Any, Final

import numpy as np
import simdjson

from ie_serving.server.wire.json_tensor import MAX_RANK
from ie_serving.tensors import Array, DataType

Lazy = Any
"""A value of a document as simdjson gives it: a proxy for what is not converted yet."""

_KEPT_BODY = 16 << 20
"""A parser keeps buffers of about four times its largest body; beyond this it is let go."""

_COUNTED_BY_NUMPY = 1 << 12
"""From this many bytes on numpy counts brackets faster than `bytes.count`."""

_BUFFER: Final = {
    dtype.number: ("d", np.dtype(np.float64))
    if dtype.numpy.kind == "f"
    else ("u", np.dtype(np.uint64))
    if dtype is DataType.UINT64
    else ("i", np.dtype(np.int64))
    for dtype in DataType
    if dtype.numpy.kind in "fiu"
}
"""How simdjson gives the numbers of each dtype, by the dtype's number: an enumeration's members are
slow as keys."""

_MOST_ELEMENTS = (1 << 24) - 2
"""simdjson keeps lengths in 24 bits; beyond them pysimdjson 7 writes past the end of its lists."""

_spare: list[simdjson.Parser] = []

# What is too large for float32 becomes infinite, as it does elsewhere. `np.errstate` would cost a
# small request more than the conversion itself.
warnings.filterwarnings("ignore", "overflow encountered in cast", RuntimeWarning)


def parse_strictly(body: bytes) -> Lazy:
    """Parse strict JSON to simdjson's lazy objects; None when it refuses or must not see the body.

    A parser cannot be used again while objects of its last document live, and says so only when
    it is tried. Then the document gets a parser of its own.
    """
    if len(body) > _MOST_ELEMENTS and body.count(b",") >= _MOST_ELEMENTS:
        return None
    try:
        parser = _spare.pop()  # not looked at before: large bodies are parsed in threads
    except IndexError:
        parser = simdjson.Parser()
    try:
        try:
            document = parser.parse(body)
        except RuntimeError:  # in use, or nested too deeply
            parser = simdjson.Parser()
            document = parser.parse(body)
    except (ValueError, RuntimeError):
        return None
    if len(body) <= _KEPT_BODY and not _spare:
        _spare.append(parser)
    return document


def read_numbers(
    values: dict[str, Lazy], dtypes: dict[str, DataType], body: bytes
) -> dict[str, Array] | None:
    """Read simdjson arrays, which must be all the arrays of `body`, without Python objects.

    Args:
        values: what simdjson has for each input.
        dtypes: element type of each input.
        body: the document that `values` are part of.

    Returns:
        Arrays of each `dtype.numpy`, writable; None when any value is not a regular array of
        numbers of its dtype.
    """
    shapes = {}
    brackets = 0
    for name, value in values.items():
        measured = _measure(value) if dtypes[name].number in _BUFFER else None
        if measured is None:
            return None
        shapes[name], opened = measured
        brackets += opened
    if _count_brackets(body) != brackets:
        return None
    arrays = {}
    for name, value in values.items():
        array = _read(value, dtypes[name], shapes[name])
        if array is None:
            return None
        arrays[name] = array
    return arrays


def read_array(array: Lazy, dtype: DataType, body: bytes) -> Array | None:
    """Read the only simdjson array of `body`, as `read_numbers` reads several."""
    measured = _measure(array) if dtype.number in _BUFFER else None
    if measured is None or measured[1] != _count_brackets(body):
        return None
    return _read(array, dtype, measured[0])


def _measure(array: Lazy) -> tuple[list[int], int] | None:
    """Return the shape and how many arrays it is made of; None when lengths differ."""
    if type(array) is not simdjson.Array:
        return None
    shape: list[int] = []
    while len(array) == 1 and type(array[0]) is simdjson.Array and len(shape) < MAX_RANK:
        shape.append(1)
        array = array[0]
    brackets = len(shape)
    level: list[Lazy] = [array]
    while len(shape) < MAX_RANK:
        lengths = set(map(len, level))
        if len(lengths) != 1:
            return None
        size = lengths.pop()
        shape.append(size)
        brackets += len(level)
        if size == 0 or type(level[0][0]) is not simdjson.Array:
            return shape, brackets
        level = [element for part in level for element in part]
        if set(map(type, level)) != {simdjson.Array}:
            return None
    return None


def _read(array: Lazy, dtype: DataType, shape: list[int]) -> Array | None:
    """Copy the numbers out; None when there are others than `dtype` takes."""
    code, wide = _BUFFER[dtype.number]
    try:
        numbers = np.frombuffer(array.as_buffer(of_type=code), wide).reshape(shape)
    except (TypeError, ValueError):
        return None
    if wide == dtype.numpy:
        return numbers
    if wide.kind == "f":
        return numbers.astype(dtype.numpy)
    narrow = numbers.astype(dtype.numpy)
    return narrow if np.array_equal(narrow, numbers) else None


def _count_brackets(body: bytes) -> int:
    if len(body) < _COUNTED_BY_NUMPY:
        return body.count(b"[")
    return int(np.count_nonzero(np.frombuffer(body, np.uint8) == 0x5B))
