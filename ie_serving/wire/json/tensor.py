"""Decodes parsed JSON values to arrays, with TensorFlow Serving's rules and errors.

The shape is taken from the first element at each depth and every other element must agree. Values
are converted as whole lists; only when that fails is the value walked in TensorFlow Serving's
order, to name the first faulty element.

Two rules go beyond TensorFlow Serving's: DT_HALF, DT_BFLOAT16 and DT_UINT16 are read too, and a
number outside of an 8 or 16 bit integer's range is refused where TensorFlow Serving wraps it.

A value `{"b64": "..."}` carries bytes.

Source: json_tensor.cc of TensorFlow Serving; RESTful API guide, "Encoding binary values".
"""

import base64
import binascii
import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, NoReturn, TypeGuard

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.json.rapidjson.document import JsonValue, bytes_of
from ie_serving.wire.json.rapidjson.printing import kind_of, show

MAX_RANK = 32
"""Most dimensions of an array in every numpy that this server runs on."""

PIECE: Final = 8 * 1024
"""Elements that are converted together. Each conversion is one call, which holds the interpreter
lock, for 0.1 s and more with a million lists."""

_CHUNK = 1024
"""Elements that are tried together in the search for the first one that is at fault."""

BASE64_KEY = "b64"
CANNOT_DECODE_BASE64 = advised(
    "Unable to base64 decode", ": the standard alphabet is expected, padded or not"
)


def decode_tensor(value: JsonValue, dtype: DataType) -> Array:
    """Decode one value: its own nesting is the shape, a scalar has rank 0.

    Returns:
        A new array of `dtype.numpy`.

    Raises:
        InvalidRequest: ragged, too deep, or an element that `dtype` cannot hold.
    """
    array = try_tensor(value, dtype)
    if array is None:
        explain(value, dtype)
        raise _unreadable(dtype)
    return array


def try_tensor(value: JsonValue, dtype: DataType) -> Array | None:
    """Decode as `decode_tensor` does, but return None instead of an error.

    Cut along the first axis alone: a row that is longer than a piece is converted whole.
    """
    shape = _shape(value)
    if len(shape) > MAX_RANK:
        return None
    if not shape:
        return _part(value, shape, dtype)
    parts: list[Array] = []
    step = max(1, PIECE // max(1, math.prod(shape[1:])))
    for start in range(0, max(1, shape[0]), step):
        rows = value[start : start + step]
        part = _part(rows, (len(rows), *shape[1:]), dtype)
        if part is None:
            return None
        parts.append(part)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _part(value: JsonValue, shape: tuple[int, ...], dtype: DataType) -> Array | None:
    leaves = _leaves(value, shape)
    flat = None if leaves is None else _flat(leaves, dtype)
    return None if flat is None else flat.reshape(shape)


class RowCheck:
    """Finds the fault in the rows of one input, row by row."""

    def __init__(self, dtype: DataType) -> None:
        self._dtype = dtype
        self._first: tuple[int, ...] | None = None

    def check(self, row: JsonValue) -> None:
        """Look at the next row.

        Raises:
            InvalidRequest: it cannot be decoded, or differs from the first in size or shape.
        """
        array = try_tensor(row, self._dtype)
        if array is None:
            explain(row, self._dtype)
            raise _unreadable(self._dtype)
        if self._first is None:
            self._first = array.shape
        if array.size != int(np.prod(self._first)):
            _fail(f"Expecting tensor size: {int(np.prod(self._first))} but got: {array.size}")
        if array.shape != self._first:
            _fail(f"Expecting shape {_brackets(self._first)} but got: {_brackets(array.shape)}")
        if array.ndim == MAX_RANK:  # the batch needs one dimension more than a row has
            _fail_depth(MAX_RANK - 1)


def explain(value: JsonValue, dtype: DataType) -> None:
    """Raise InvalidRequest for the first fault of `value`, in TensorFlow Serving's order."""
    shape = _shape(value)
    if len(shape) > MAX_RANK:
        _fail_depth(MAX_RANK)
    _explain_level(value, 0, shape, dtype)


def _explain_level(value: JsonValue, level: int, shape: tuple[int, ...], dtype: DataType) -> None:
    if not isinstance(value, list):
        _explain_leaf(value, level, shape, dtype)
        return
    if level >= len(shape):
        _fail(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        _fail(
            f"Encountered list at unexpected size: {len(value)} at level: {level}"
            f" expected size: {shape[level]}"
        )
    for element in _suspects(value, dtype) if level == len(shape) - 1 else value:
        _explain_level(element, level + 1, shape, dtype)


def _suspects(elements: list[JsonValue], dtype: DataType) -> Iterator[JsonValue]:
    """Yield the elements of those chunks that cannot be decoded."""
    for start in range(0, len(elements), _CHUNK):
        chunk = elements[start : start + _CHUNK]
        if _flat(chunk, dtype) is None:
            yield from chunk


def _explain_leaf(value: JsonValue, level: int, shape: tuple[int, ...], dtype: DataType) -> None:
    if level != len(shape):
        _fail(
            f"JSON Value: {show(value)} found at incorrect level: {level + 1} in the JSON DOM."
            f" Expected at level: {len(shape)}"
        )
    if _flat([value], dtype) is not None:
        return
    if dtype is DataType.STRING and isinstance(value, dict):
        _fail_base64(value)
    _fail_type(value, dtype)


def _fail_type(value: JsonValue, dtype: DataType) -> NoReturn:
    _fail(
        advised(
            f"JSON Value: {show(value)} Type: {kind_of(value)} is not of expected type:"
            f" {dtype.word}",
            _range(value, dtype),
        )
    )


def _fail_base64(value: dict[str, JsonValue]) -> NoReturn:
    if is_base64(value):
        _fail(CANNOT_DECODE_BASE64)
    _fail(f"JSON Value: {show(value)} not formatted correctly for base64 data")


def _range(value: JsonValue, dtype: DataType) -> str:
    if type(value) is not int or dtype not in _INTEGERS:
        return ""
    low, high = _INTEGERS[dtype]
    return f": it lies outside of {low} to {high}"


# One level too deep is enough to be refused: a body of brackets alone must not be followed down.
def _shape(value: JsonValue) -> tuple[int, ...]:
    """Follow the first elements down, not further than one level too deep."""
    shape: list[int] = []
    while isinstance(value, list) and len(shape) <= MAX_RANK:
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def _leaves(value: JsonValue, shape: tuple[int, ...]) -> list[JsonValue] | None:
    """Flatten in row-major order; None when a part does not agree with `shape`."""
    level = [value]
    for size in shape:
        if not set(map(type, level)) <= {list} or not set(map(len, level)) <= {size}:
            return None
        level = list(chain.from_iterable(level))
    return None if list in set(map(type, level)) else level


def _flat(leaves: list[JsonValue], dtype: DataType) -> Array | None:
    return _CONVERT[dtype](leaves, dtype)


# The way leads over float64: values beyond float32 and smaller dtypes become infinite. bool is no
# number here, though Python counts it as an int: hence the exact types.
def _floats(leaves: list[JsonValue], dtype: DataType) -> Array | None:
    if not set(map(type, leaves)) <= {int, float}:
        return None
    with np.errstate(over="ignore"):
        return np.array(leaves, np.float64).astype(dtype.numpy)


def _integers(leaves: list[JsonValue], dtype: DataType) -> Array | None:
    if not set(map(type, leaves)) <= {int}:
        return None
    low, high = _INTEGERS[dtype]
    if leaves and (min(leaves) < low or max(leaves) > high):
        return None
    return np.array(leaves, dtype.numpy)


def _booleans(leaves: list[JsonValue], dtype: DataType) -> Array | None:
    if not set(map(type, leaves)) <= {bool}:
        return None
    return np.array(leaves, dtype.numpy)


def _strings(leaves: list[JsonValue], dtype: DataType) -> Array | None:
    array = np.empty(len(leaves), dtype.numpy)
    for index, leaf in enumerate(leaves):
        value = bytes_of(leaf) if type(leaf) is str else None
        if is_base64(leaf):
            value = decode_base64(leaf["b64"])
        if value is None:
            return None
        array[index] = value
    return array


def _brackets(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _fail_depth(limit: int) -> NoReturn:
    _fail(
        advised(
            f"Encountered list at unexpected level: {limit} expected < {limit}",
            f": a tensor has at most {MAX_RANK} dimensions",
        )
    )


def _fail(text: str) -> NoReturn:
    raise InvalidRequest(text)


def _unreadable(dtype: DataType) -> InvalidRequest:
    return InvalidRequest(f"the value cannot be read as a tensor of type {dtype.word}")


_INTEGERS: Final = {
    dtype: (int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max))
    for dtype in DataType
    if dtype.numpy.kind in "iu"
}
_BY_KIND: Final[dict[str, Callable[[list[JsonValue], DataType], Array | None]]] = {
    "f": _floats,
    "i": _integers,
    "u": _integers,
    "b": _booleans,
    "O": _strings,
}
_CONVERT: Final = {dtype: _BY_KIND[dtype.numpy.kind] for dtype in DataType}


def is_base64(value: JsonValue) -> TypeGuard[dict[str, str]]:
    """Tell whether this is an object with the one key `b64` and a string under it."""
    return type(value) is dict and len(value) == 1 and type(value.get(BASE64_KEY)) is str


def is_named(value: JsonValue) -> TypeGuard[dict[str, JsonValue]]:
    """Tell whether this is an object that names inputs, rather than one that holds base64."""
    return type(value) is dict and not is_base64(value)


def decode_base64(text: str) -> bytes | None:
    """Decode the standard alphabet, padded or not, with white space in it or not.

    Returns:
        The bytes; None when `text` is anything else.
    """
    if any(space in text for space in " \t\n\r"):
        text = "".join(text.split())
    # Existing padding has to be complete; Python's decoder requires padding, so it is added again.
    digits = text.rstrip("=")
    padding = -len(digits) % 4
    if len(text) - len(digits) not in (0, padding):
        return None
    try:
        return base64.b64decode(digits + "=" * padding, validate=True)
    except (binascii.Error, ValueError):
        return None
