"""Encodes outputs to REST replies, with TensorFlow Serving's layout and number texts.

A reply of at most `EXACT_NUMBERS` elements is byte for byte what TensorFlow Serving writes
(`pretty.py`, `number_text.py`); the usual one, a single output of few numbers, is written here in
few calls.

A larger reply has the same values in fewer bytes: no white space, and the shortest texts, such as
`0.33333334` instead of `0.333333343`. Any JSON reader gets the same values, several times sooner.
The numbers are printed straight from numpy's memory, in pieces.

In both, NaN and infinity are the bare words `NaN`, `Infinity` and `-Infinity`, as TensorFlow
Serving has them. Source: json_tensor.cc of TensorFlow Serving.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Final

import numpy as np
import orjson

from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.core.values.tensors import Array, DataType, TensorSpec
from ie_serving.wire.json.number_text import (
    FEW,
    LEAST_LONG,
    LONG_FORMS,
    WORDS,
    are_long,
    exact_float32,
    floats,
    is_short,
    texts_of,
)
from ie_serving.wire.json.pretty import (
    DENSE,
    LINES,
    ONE_LINE,
    encoded,
    escaped,
    quoted,
    quoted_text,
    write_columns,
    write_rows,
)
from ie_serving.wire.json.request import Format

EXACT_NUMBERS: Final = 200
"""Elements, empty lists counted, up to which a reply has TensorFlow Serving's own bytes. Clients
that compare texts look at small replies; a larger one costs too much to print that way."""

_NAMES: Final = 1024
"""Names of outputs whose JSON is cached, over all models; beyond that the least recently used is
evicted."""

_TEMPLATES: Final = 256
"""Shapes of replies whose layout is cached, of up to 8 KB each; beyond that the least recently used
is evicted."""

LayOut = Callable[[bytes], bytes]
"""Gives an array of numbers that was written without white space its place in a reply."""

_ROW: Final = Format.ROW
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY
_PRINTED_ALIKE: Final = frozenset("fd?bBhHiIlLqQ")
"""numpy's characters of the dtypes that orjson and TensorFlow Serving write alike, or nearly so:
floats of 32 and 64 bits, integers, booleans. A float of 16 bits has many texts of 6 digits."""

LONGEST_ERROR: Final = 16_384
"""Characters of an error that are sent: it may quote a name, which may be as long as a body."""
CUT: Final = "...TRUNCATED"
PIECE: Final = 32 * 1024
"""Elements that orjson prints in one call, which holds the interpreter for less than a millisecond;
a larger piece would delay every other request of the process for longer."""


def encode_predictions(
    outputs: Mapping[str, Array], form: Format, specs: Mapping[str, TensorSpec]
) -> bytes | bytearray:
    """Encode the reply of a Predict.

    Args:
        outputs: arrays by name; not kept.
        form: `ROW` writes `predictions`, one entry a row; `COLUMN` writes `outputs`.
        specs: the signature's outputs.

    Raises:
        InvalidRequest: no outputs, or outputs that have no equal number of rows in `ROW`.
    """
    if len(outputs) == 1:
        (array,) = outputs.values()
        text = None
        if form is _ROW or array.ndim <= 2:
            text = _few_numbers(array, _rows if form is _ROW else _column)
        if text is not None:
            return text
    else:
        text = (_few_of_a_row if form is _ROW else _few_columns)(outputs)
        if text is not None:
            return text
    if not outputs:
        raise InvalidRequest("Cannot convert empty tensor map to JSON")
    check_rows(form, outputs)
    write = write_rows if form is _ROW else write_columns
    size = sum(math.prod(size or 1 for size in array.shape) for array in outputs.values())
    if size <= EXACT_NUMBERS:
        return encoded(write(outputs, specs, ONE_LINE if form is _ROW else LINES))
    strings = any(specs[name].dtype is DataType.STRING for name in outputs)
    if not strings and (len(outputs) == 1 or all(map(is_finite, outputs.values()))):
        return compact(outputs, rows=form is _ROW)
    return encoded(write(outputs, specs, DENSE))


def encode_classifications(results: Sequence[Sequence[tuple[bytes, float]]]) -> bytes:
    """Encode the reply of a Classify: for each example its classes, each a label and a score.

    Raises:
        InvalidRequest: there are no results.
    """
    if not results:
        raise InvalidRequest("Cannot convert empty ClassificationResults to JSON")
    scores = floats(np.array([score for row in results for _, score in row], np.float32))
    pairs = zip((label for row in results for label, _ in row), scores, strict=True)
    texts = iter([f"[{quoted(label)}, {score}]" for label, score in pairs])
    rows = (ONE_LINE.array([next(texts) for _ in row], 2) for row in results)
    return encoded(f'{{\n    "results": [{", ".join(rows)}\n    ]\n}}')


def encode_regressions(values: Sequence[float] | Array) -> bytes:
    """Encode the reply of a Regress: a value for each example.

    Raises:
        InvalidRequest: there are no values.
    """
    if not len(values):
        raise InvalidRequest("Cannot convert empty RegressionResults to JSON")
    texts = floats(np.array(values, np.float32).reshape(-1))
    return encoded(f'{{\n    "results": {ONE_LINE.array(texts, 1)}\n}}')


# "replace": the text may quote a client's bytes, and the error must be sent in any case.
def encode_error(text: str) -> bytes:
    """Encode the body of an error reply."""
    if len(text) > LONGEST_ERROR:
        text = text[:LONGEST_ERROR] + CUT
    return f'{{\n    "error": "{escaped(text)}"\n}}'.encode("utf-8", "replace")


def check_rows(form: object, outputs: Mapping[str, Array]) -> None:
    """Refuse outputs that have no equal number of rows, where the reply is of rows.

    Raises:
        InvalidRequest: naming the output.
    """
    if form is not _ROW:
        return
    rows = None
    for name, array in outputs.items():
        if array.ndim == 0:
            raise InvalidRequest(
                advised(
                    f"Tensor name: {name} has no shape information ",
                    ": it has no rows; ask with 'inputs' instead of 'instances'",
                )
            )
        rows = len(array) if rows is None else rows
        if len(array) != rows:
            raise InvalidRequest(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {rows}"
            )


def _few_numbers(array: Array, lay_out: LayOut) -> bytes | None:
    """Write an array of few numbers; None where it takes the general way."""
    kind, size = array.dtype.char, array.size
    if not 0 < size <= EXACT_NUMBERS or kind not in _PRINTED_ALIKE or not array.ndim:
        return None
    try:
        text = orjson.dumps(array, option=_NUMPY)
    except orjson.JSONEncodeError:  # not contiguous
        return None
    if len(text) >= LEAST_LONG * size and are_long(text):
        return _template(array.shape, LONG_FORMS[kind], lay_out) % tuple(array.ravel().tolist())
    if kind not in "fd" or (size > FEW and is_short(text)):
        return lay_out(text)
    if size > FEW and kind == "f":
        return lay_out(exact_float32(array))
    return _template(array.shape, b"%b", lay_out) % tuple(texts_of(text, array))


# Replies of one shape differ in the texts of their numbers alone.
@lru_cache(_TEMPLATES)
def _template(shape: tuple[int, ...], form: bytes, lay_out: LayOut) -> bytes:
    """Lay out an array for `%` to fill in its numbers, each by `form`."""
    zeros = orjson.dumps(np.zeros(shape), option=_NUMPY)
    return lay_out(zeros.replace(b"0.0", form))


# Beyond two dimensions the lines of columns nest deeper than `_in_lines` lays out.
def _few_columns(outputs: Mapping[str, Array]) -> bytes | None:
    """Write several outputs of few numbers, lists or lists of lists, as columns."""
    left = EXACT_NUMBERS
    members = []
    for name, array in outputs.items():
        left -= array.size
        text = _few_numbers(array, _member) if left >= 0 and array.ndim <= 2 else None
        if text is None:
            return None
        members.append(_name(name) + text)
    if not members:
        return None
    return b'{\n    "outputs": {\n        %b\n    }\n}' % b",\n        ".join(members)


def _few_of_a_row(outputs: Mapping[str, Array]) -> bytes | None:
    """Write several outputs of few numbers and of one row: the usual reply to one instance."""
    left = EXACT_NUMBERS
    members = []
    for name, array in outputs.items():
        left -= array.size
        is_row = array.ndim and len(array) == 1
        text = _few_numbers(array, _only_row) if is_row and left >= 0 else None
        if text is None:
            return None
        members.append(_name(name) + text)
    if not members:
        return None
    row = b",\n            ".join(members)
    return b'{\n    "predictions": [\n        {\n            %b\n        }\n    ]\n}' % row


@lru_cache(_NAMES)
def _name(name: str) -> bytes:
    """Write the text before the value of a member."""
    return encoded(quoted_text(name)) + b": "


# The text holds numbers and booleans only, so every comma and bracket in it is JSON's own.
def _in_lines(text: bytes, line: bytes) -> bytes:
    """Lay out a list or a list of lists as `LINES` does; `line` begins the line it stands on."""
    value = line + b"    "
    if text[1] != 0x5B:  # [
        return b"[%b%b%b]" % (value, text[1:-1].replace(b",", b"," + value), line)
    inner = value + b"    "
    rows = text[2:-2].replace(b",", b"," + inner)
    rows = rows.replace(b"]," + inner + b"[", value + b"]," + value + b"[" + inner)
    return b"[%b[%b%b%b]%b]" % (value, inner, rows, value, line)


def _rows(text: bytes) -> bytes:
    return b'{\n    "predictions": [%b\n    ]\n}' % text[1:-1].replace(b",", b", ")


def _only_row(text: bytes) -> bytes:
    return text[1:-1].replace(b",", b", ")


def _column(text: bytes) -> bytes:
    return b'{\n    "outputs": %b\n}' % _in_lines(text, b"\n    ")


_member: Final = partial(_in_lines, line=b"\n        ")


# A row of several outputs is an object, too small to be printed in pieces.
def compact(outputs: Mapping[str, Array], *, rows: bool) -> bytes | bytearray:
    """Write a reply of numbers and booleans; with `rows` as `predictions`, one entry a row.

    Several outputs must be finite: orjson would write null for NaN and infinity.
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
    """Write one array of numbers or booleans in pieces, with words for NaN and infinity."""
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
    """Write an array with words for NaN and infinity."""
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
    """Replace orjson's nulls, in order, by the words for NaN and infinity."""
    parts = orjson.dumps(piece, option=orjson.OPT_SERIALIZE_NUMPY).split(b"null")
    words = [WORDS[str(value)].encode() for value in piece[~np.isfinite(piece)].tolist()]
    return b"".join(chain.from_iterable(zip(parts, [*words, b""], strict=True)))


def known(array: Array) -> Array:
    """Give an array whose single elements orjson knows.

    numpy has two types of 64-bit integers, after C's `long` and `long long`. onnxruntime gives the
    second; orjson takes its arrays, but not its single elements.
    """
    return array.view(array.dtype.str)


def is_finite(array: Array) -> bool:
    """Tell whether orjson has a text for each element; for NaN and infinity it writes null."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
