"""Replies of more than `EXACT_NUMBERS` numbers: no white space, and the shortest texts.

`0.33333334` instead of `0.333333343`: any JSON reader gets the same values, several times sooner.
The numbers are printed straight from numpy's memory, in pieces.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

import numpy as np
import orjson

from ie_serving.core.values.tensors import Array
from ie_serving.wire.json.decimals import WORDS

PIECE: Final = 32 * 1024
"""Elements that orjson prints in one call, which holds the interpreter for less than a millisecond;
a larger piece would delay every other request of the process for longer."""


# With several outputs in rows each row is an object, too small to be printed in pieces.
def compact(outputs: Mapping[str, Array], *, rows: bool) -> bytes | bytearray:
    """Write a reply of numbers and booleans; with `rows` as `predictions`, one entry a row.

    Several outputs are finite: orjson would write null for what is not.
    """
    if rows and len(outputs) > 1:
        entries = zip(
            *(np.ascontiguousarray(known(each)) for each in outputs.values()), strict=True
        )
        content = [dict(zip(outputs, row, strict=True)) for row in entries]
        return orjson.dumps({"predictions": content}, option=orjson.OPT_SERIALIZE_NUMPY)
    reply = bytearray()  # it grows in place: one join would hold the interpreter for all its length
    if len(outputs) == 1:
        (array,) = outputs.values()
        reply += b'{"predictions":' if rows else b'{"outputs":'
        for piece in numbers(array):
            reply += piece
        reply += b"}"
        return reply
    separator = b'{"outputs":{'
    for name, array in outputs.items():
        reply += b"%b%b:" % (separator, orjson.dumps(name))
        for piece in _dense(array):
            reply += piece
        separator = b","
    reply += b"}}"
    return reply


def numbers(array: Array) -> Iterator[bytes | memoryview]:
    """Write one array of numbers or booleans, with words for what is not finite, in pieces."""
    return _dense(array) if is_finite(array) else _worded(array)


def _dense(array: Array) -> Iterator[bytes | memoryview]:
    """Write one array, in pieces: orjson holds the interpreter for as long as a call lasts."""
    if array.ndim == 0:
        yield orjson.dumps(known(array)[()], option=orjson.OPT_SERIALIZE_NUMPY)
        return
    separator = b"["
    for piece in _pieces(array):
        text = orjson.dumps(piece, option=orjson.OPT_SERIALIZE_NUMPY)
        yield separator
        yield memoryview(text)[1:-1]
        separator = b","
    yield b"]" if len(array) else b"[]"


# Cut along the first axis alone: a row that is longer than a piece is printed whole.
def _pieces(array: Array) -> Iterator[Array]:
    whole = np.ascontiguousarray(array)
    step = max(1, PIECE // max(1, math.prod(whole.shape[1:])))
    for start in range(0, len(whole), step):
        yield whole[start : start + step]


def _worded(array: Array) -> Iterator[bytes | memoryview]:
    """Write an array with words for what is not finite."""
    if array.ndim == 0:
        yield WORDS[str(array[()])].encode()
        return
    separator = b"["
    for piece in _pieces(array):
        yield separator
        yield memoryview(_with_words(piece))[1:-1]
        separator = b","
    yield b"]"


# A null of another origin cannot be in the text: it holds numbers of one output.
def _with_words(piece: Array) -> bytes:
    """Put the words for what is not finite in place of orjson's nulls, which are in order."""
    parts = orjson.dumps(piece, option=orjson.OPT_SERIALIZE_NUMPY).split(b"null")
    words = [WORDS[str(value)].encode() for value in piece[~np.isfinite(piece)].tolist()]
    return b"".join(chain.from_iterable(zip(parts, [*words, b""], strict=True)))


def known(array: Array) -> Array:
    """Give an array whose single elements orjson knows.

    numpy has two types of 64-bit integers, after C's `long` and `long long`. onnxruntime gives the
    second, whose arrays orjson takes, but not what a loop over one gives.
    """
    return array.view(array.dtype.str)


def is_finite(array: Array) -> bool:
    """Tell whether orjson has a text for each element; for NaN and infinity it writes null."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
