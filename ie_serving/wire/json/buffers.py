"""Reader 2 of 4: copies arrays of plain numbers out of simdjson's own buffers.

No Python object is made for an element. simdjson's `as_buffer` flattens whatever nesting it finds,
so the shape is measured beside it, and two checks together prove that the array is regular: all
lists of one level have the same length, and the body holds exactly as many opening brackets as that
shape needs, so that no list can hide where a number is expected. A body with brackets elsewhere (in
a string, under another key) is not wrong; this reader answers None and leaves it to reader 3. The
shape of a small body may instead be known from an earlier body with the same brackets and commas.

`SHAPES` has the shapes of bodies by layout: the brackets and commas of a body, without its numbers.
Most clients send arrays of one shape again and again. Finding a *layout* takes one pass over the
bytes and one look-up in a dictionary, where measuring needs simdjson's proxy of every list.

Why a layout determines the shape. It is cached only where it is that of one regular array, with at
most commas around it, and no dimension of the array is 0. Take another body with the same layout,
in which simdjson has found an array of numbers, as the value of an object or as all of the body.
If text follows such a value, its layout begins with a comma. So the array is the whole layout,
except for the commas around; or a list within it that others follow, and then it has fewer
elements. An empty list has the layout of a list of one; then there are fewer elements, too.
So an array with as many elements as the shape is of that shape. The caller has to check that
number: `buffers.py` does, since numpy makes no array of a buffer that is too small.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import simdjson

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.json.tensor import MAX_RANK

Lazy = Any
"""A value of a document from simdjson: a proxy for a value not converted yet."""

KEPT_BODY: Final = 1 << 20
"""Bytes of the largest body whose parser its thread keeps for the next body. A parser holds buffers
of about four times its largest body, in each of up to some forty threads; a larger body is rare and
gets a new parser, which costs a thousandth of its parsing."""

_MOST_ELEMENTS: Final = (1 << 24) - 2
"""Elements of one list. simdjson keeps lengths in 24 bits; pysimdjson 7 writes past the end of its
buffers beyond them, so a body with that many commas never reaches it."""

_MINUS: Final = 0x2D
"""A minus, as a number: looking for `b"-"` takes four times the instructions."""

_COUNTED_BY_NUMPY: Final = 1 << 12
"""Bytes of a body from which numpy counts brackets faster than `bytes.count`."""

_LOOKED_OVER: Final = 1 << 10
"""Elements up to which looking for the largest is cheaper than `np.errstate`, whose context manager
takes about 10,000 instructions."""

LONGEST: Final = 16 * 1024
"""Bytes up to which a body's layout is looked up; lists take little of a larger body's time."""
MOST: Final = 64
"""Layouts that are remembered, of at most `LONGEST` bytes each, so about 1 MB in all. For one more
all are forgotten: clients choose them."""
ELSE: Final = bytes(set(range(256)) - set(b"[],"))
"""The bytes that a layout leaves out."""
SHAPES: Final[dict[bytes, Sequence[int]]] = {}
"""Shapes by layout: the shape that a body's array has if it holds as many numbers. It is looked up
without a call, for every small request."""


class _Numbers(NamedTuple):
    """How the numbers of one dtype leave simdjson.

    Attributes:
        code: type code for `as_buffer`.
        wide: numpy's name for what `as_buffer` writes.
        narrow: the dtype they are converted to; None when that is `wide` itself.
        largest: finite number of `narrow`; beyond it a float becomes infinite. 0 for integers.
    """

    code: str
    wide: np.dtype[Any]
    narrow: np.dtype[Any] | None
    largest: float


def _numbers_of(dtype: DataType) -> _Numbers:
    code: str
    wide: np.dtype[Any]
    if dtype.numpy.kind == "f":
        code, wide = "d", np.dtype(np.float64)
    elif dtype is DataType.UINT64:
        code, wide = "u", np.dtype(np.uint64)
    else:
        code, wide = "i", np.dtype(np.int64)
    largest = float(np.finfo(dtype.numpy).max) if dtype.numpy.kind == "f" else 0.0
    return _Numbers(code, wide, None if wide == dtype.numpy else dtype.numpy, largest)


_NUMBERS: Final = {
    dtype.number: _numbers_of(dtype) for dtype in DataType if dtype.numpy.kind in "fiu"
}
"""Facts of dtypes by number, since hashing a member of an enumeration runs Python code."""


class _ThreadParser(threading.local):
    """A thread's own parser, made when the thread first reads a body."""

    parser: simdjson.Parser | None = None


_own = _ThreadParser()


def parse_strictly(body: bytes) -> Lazy:
    """Parse strict JSON to simdjson's lazy objects; None when it refuses or must not see the body.

    A parser cannot be used again while objects of its last document live, and says so only when
    it is tried. Then the document gets a parser of its own.
    """
    if len(body) > _MOST_ELEMENTS and body.count(b",") >= _MOST_ELEMENTS:
        return None
    if len(body) > KEPT_BODY:  # its buffers grow with a body that it refuses, too
        return _parsed(simdjson.Parser(), body)
    if _own.parser is None:
        _own.parser = simdjson.Parser()
    try:
        return _own.parser.parse(body)
    except ValueError:
        return None
    except RuntimeError:  # in use, or nested too deeply
        _own.parser = simdjson.Parser()
        return _parsed(_own.parser, body)


def _parsed(parser: simdjson.Parser, body: bytes) -> Lazy:
    try:
        return parser.parse(body)
    except (ValueError, RuntimeError):
        return None


# The brackets are counted since `[[1,2],[3,[4]]]` would pass for a regular array otherwise: only
# first elements are checked for being lists.
def read_array(
    array: Lazy, dtype: DataType, body: bytes, brackets: int | None = None
) -> Array | None:
    """Read the only array of `body`.

    Args:
        array: simdjson's proxy of it.
        dtype: its element type.
        body: the document that `array` is part of: all of it, or a value of an object in it, never
            an element of a list unless `brackets` is given.
        brackets: the result of `count_brackets` for `body`, if known.

    Returns:
        New array of `dtype.numpy`; None when it is not a regular array of numbers of its dtype.
    """
    numbers = _NUMBERS.get(dtype.number)
    if numbers is None or type(array) is not simdjson.Array:
        return None
    layout = b""
    if brackets is None and len(body) <= LONGEST:
        layout = bytes(body.translate(None, ELSE))
        shape = SHAPES.get(layout)
        found = None if shape is None else _copy(array, numbers, shape, body)
        if found is not None:
            return found
    measured = _measure(array)
    if brackets is None:
        brackets = count_brackets(body)
    if measured is None or brackets != measured[1]:
        return None
    if layout:
        remember(layout, measured[0])
    return _copy(array, numbers, measured[0], body)


# The brackets are counted once for all, as none tells which array it belongs to.
def read_arrays(
    values: dict[str, Lazy], dtypes: dict[str, DataType], body: bytes, others: int = 0
) -> dict[str, Array] | None:
    """Read several arrays as `read_array` reads one.

    Together they are all the arrays of `body`, but for `others`, which hold no arrays themselves.
    """
    shapes = {}
    brackets = others
    for name, value in values.items():
        measured = _measure(value) if dtypes[name].number in _NUMBERS else None
        if measured is None:
            return None
        shapes[name], opened = measured
        brackets += opened
    if count_brackets(body) != brackets:
        return None
    arrays = {}
    for name, value in values.items():
        array = _copy(value, _NUMBERS[dtypes[name].number], shapes[name], body)
        if array is None:
            return None
        arrays[name] = array
    return arrays


def _measure(array: Lazy) -> tuple[list[int], int] | None:
    """Return the shape and how many arrays it is made of; None when lengths differ."""
    lists = simdjson.Array
    if type(array) is not lists:
        return None
    shape: list[int] = []
    while len(array) == 1 and type(first := array[0]) is lists and len(shape) < MAX_RANK:
        shape.append(1)
        array = first
    brackets = len(shape) + 1
    size = len(array)
    if size == 0 or type(array[0]) is not lists:
        shape.append(size)
        return (shape, brackets) if len(shape) <= MAX_RANK else None
    return _measure_levels([array], shape, len(shape))


# Beyond `MAX_RANK` no array of numpy can be made: reader 3 names the fault.
def _measure_levels(
    level: list[Lazy], shape: list[int], brackets: int
) -> tuple[list[int], int] | None:
    """Go on measuring where a list holds more than one list; `level` holds all lists of a depth."""
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


def _copy(array: Lazy, numbers: _Numbers, shape: Sequence[int], body: bytes) -> Array | None:
    """Copy the numbers out; None when there are others than the dtype takes."""
    code, wide, narrow, largest = numbers
    try:
        values: Array = np.ndarray(shape, wide, array.as_buffer(of_type=code))
    except (TypeError, ValueError):
        return None
    if narrow is None:
        return values
    if not largest:
        exact = values.astype(narrow)
        return exact if _same(exact, values) else None
    # Looking for the largest, and for the smallest where there is a minus, beats `np.errstate`.
    if (
        0 < values.size <= _LOOKED_OVER
        and values.item(values.argmax()) <= largest
        and (_MINUS not in body or values.item(values.argmin()) >= -largest)
    ):
        return values.astype(narrow)
    with np.errstate(over="ignore"):  # JSON may mean infinity where the dtype ends
        return values.astype(narrow)


def _same(narrow: Array, wide: Array) -> bool:
    """Tell whether integers survived conversion, by their bytes where few have to be copied."""
    if wide.size <= _LOOKED_OVER:  # 0.3 us instead of 2.4
        return narrow.astype(wide.dtype).tobytes() == wide.tobytes()
    return bool(np.array_equal(narrow, wide))


# Counting bytes is counting brackets: in UTF-8 no byte of another character equals "[".
def count_brackets(body: bytes) -> int:
    """Count the lists of `body`, and the opening brackets in its strings."""
    if len(body) < _COUNTED_BY_NUMPY:
        return body.count(b"[")
    return int(np.count_nonzero(np.frombuffer(body, np.uint8) == 0x5B))


def remember(layout: bytes, shape: Sequence[int]) -> None:
    """Cache a measured shape, where the layout determines it."""
    if 0 in shape or layout.strip(b",") != _written(shape):
        return
    if len(SHAPES) >= MOST:
        SHAPES.clear()
    SHAPES[layout] = tuple(shape)


def _written(shape: Sequence[int]) -> bytes:
    layout = b"," * (shape[-1] - 1)
    for size in shape[-2::-1]:
        layout = b",".join([b"[%b]" % layout] * size)
    return b"[%b]" % layout
