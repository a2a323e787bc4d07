"""Outputs -> REST replies, with TensorFlow Serving's layout and number texts.

A reply of at most `EXACT_NUMBERS` elements is byte for byte what TensorFlow Serving writes. A
number is `%.6g` when that reads back as the same value of its dtype, else `%.9g` (double:
`%.17g`), with `.0` where neither `.` nor `e` is in it. Rows stand on one line; columns, and the
members of objects, take a line for each value, four spaces a level.

A larger reply has no white space, and its numbers are the shortest texts that read back as the
same value: `0.33333334` instead of `0.333333343`. Any JSON reader gets the same values, several
times sooner.

In both, NaN and infinity are the bare words `NaN`, `Infinity` and `-Infinity`, as TensorFlow
Serving has them, and strings are written as they are, also where they are not UTF-8. A string
output whose name ends in `_bytes` has objects `{"b64": ...}`.

Source: json_tensor.cc of TensorFlow Serving; prettywriter.h of RapidJSON 1.1.0.
"""

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
import orjson

from ie_serving.errors import InvalidRequest
from ie_serving.server.wire.json_request import Format
from ie_serving.tensors import Array, DataType, TensorSpec

EXACT_NUMBERS = 200
"""Up to so many elements, empty lists counted, a reply has TensorFlow Serving's own bytes."""

PIECE = 32 * 1024
"""Elements of a large output that are written at a time, in less than a millisecond."""

_PRINTED_ALIKE: Final = frozenset("fd?bBhHiIlLqQ")
"""numpy's characters of the dtypes that `_few_numbers` may write: floats of 32 and 64 bits,
integers, booleans. A float of 16 bits has many texts of 6 digits."""
_NOT_SHORT: Final = re.compile(rb"n|e|0\.0000|[0-9.]{8}")
"""In orjson's text: a number that is not finite, that `%g` might give an exponent, or that might
have more than 6 digits."""
_LEAST_WITH_EXPONENT: Final = 999_999
_EXACT: Final = {"f": "%.9g ", "d": "%.17g "}

_BYTES_SUFFIX = "_bytes"
_INDENT = "    "
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')
_ESCAPES: Final = {
    **{chr(code): f"\\u{code:04X}" for code in range(0x20)},
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


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
        text = _few_numbers(array)
        if text is not None and form is Format.ROW:
            return b'{\n    "predictions": [%b\n    ]\n}' % text[1:-1].replace(b",", b", ")
        if text is not None and array.ndim <= 2:
            return b'{\n    "outputs": %b\n}' % _in_lines(text, array.ndim)
    if not outputs:
        raise InvalidRequest("Cannot convert empty tensor map to JSON")
    if form is Format.ROW:
        _check_rows(outputs)
    write = _write_rows if form is Format.ROW else _write_columns
    size = sum(math.prod(size or 1 for size in array.shape) for array in outputs.values())
    if size <= EXACT_NUMBERS:
        return _bytes(write(outputs, specs, _ONE_LINE if form is Format.ROW else _LINES))
    strings = any(specs[name].dtype is DataType.STRING for name in outputs)
    if not strings and all(map(_is_finite, outputs.values())):
        return _compact(outputs, form)
    if not strings and len(outputs) == 1:
        return _with_words(_compact(outputs, form), next(iter(outputs.values())))
    return _bytes(write(outputs, specs, _DENSE))


def encode_classifications(results: Sequence[Sequence[tuple[bytes, float]]]) -> bytes:
    """Encode the reply of a Classify: for each example its classes, each a label and a score.

    Raises:
        InvalidRequest: there are no results.
    """
    if not results:
        raise InvalidRequest("Cannot convert empty ClassificationResults to JSON")
    scores = _decimals(np.array([score for row in results for _, score in row], np.float32))
    pairs = zip((label for row in results for label, _ in row), scores, strict=True)
    texts = iter([f"[{_quoted(label)}, {score}]" for label, score in pairs])
    rows = (_ONE_LINE.array([next(texts) for _ in row], 2) for row in results)
    return _bytes(f'{{\n    "results": [{", ".join(rows)}\n    ]\n}}')


def encode_regressions(values: Sequence[float] | Array) -> bytes:
    """Encode the reply of a Regress: a value for each example.

    Raises:
        InvalidRequest: there are no values.
    """
    if not len(values):
        raise InvalidRequest("Cannot convert empty RegressionResults to JSON")
    texts = _decimals(np.array(values, np.float32).reshape(-1))
    return _bytes(f'{{\n    "results": {_ONE_LINE.array(texts, 1)}\n}}')


def encode_error(text: str) -> bytes:
    """Encode the body of an error reply."""
    return f'{{\n    "error": "{_escaped(text)}"\n}}'.encode("utf-8", "replace")


def _check_rows(outputs: Mapping[str, Array]) -> None:
    rows = None
    for name, array in outputs.items():
        if array.ndim == 0:
            raise InvalidRequest(
                f"Tensor name: {name} has no shape information : it has no rows; ask with"
                " 'inputs' instead of 'instances'"
            )
        rows = len(array) if rows is None else rows
        if len(array) != rows:
            raise InvalidRequest(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {rows}"
            )


class _Lines:
    """Columns: a line for each value. `level` is how many brackets are open around it."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{self._lines(items, level)}]"

    def object(self, members: Mapping[str, str], level: int) -> str:
        """Write an object."""
        lines = [f'"{_escaped(name)}": {value}' for name, value in members.items()]
        return f"{{{self._lines(lines, level)}}}"

    def _lines(self, items: Sequence[str], level: int) -> str:
        if not items:
            return ""
        start = "\n" + _INDENT * (level + 1)
        return start + f",{start}".join(items) + "\n" + _INDENT * level


class _OneLine(_Lines):
    """Rows: a list takes one line; objects are as among columns."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{', '.join(items)}]"


class _Dense(_Lines):
    """No white space at all."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{','.join(items)}]"

    def object(self, members: Mapping[str, str], level: int) -> str:
        """Write an object."""
        return (
            f"{{{','.join([f'{_quoted_text(name)}:{value}' for name, value in members.items()])}}}"
        )


_LINES: Final = _Lines()
_ONE_LINE: Final = _OneLine()
_DENSE: Final = _Dense()


def _write_columns(
    outputs: Mapping[str, Array], specs: Mapping[str, TensorSpec], layout: _Lines
) -> str:
    named = len(outputs) > 1
    level = 2 if named else 1
    values = {}
    for name, array in outputs.items():
        texts = _texts(array, specs[name], layout, level + array.ndim)
        (values[name],) = _nest(texts, array, 0, layout, level)
    content = layout.object(values, 1) if named else next(iter(values.values()))
    return layout.object({"outputs": content}, 0)


def _write_rows(
    outputs: Mapping[str, Array], specs: Mapping[str, TensorSpec], layout: _Lines
) -> str:
    level = 3 if len(outputs) > 1 else 2
    columns = [
        _nest(_texts(array, specs[name], layout, level + array.ndim - 1), array, 1, layout, level)
        for name, array in outputs.items()
    ]
    if len(columns) == 1:
        rows = columns[0]
    else:
        rows = [
            layout.object(dict(zip(outputs, row, strict=True)), 2)
            for row in zip(*columns, strict=True)
        ]
    return layout.object({"predictions": _predictions(rows, level == 3, layout)}, 0)


def _predictions(rows: list[str], named: bool, layout: _Lines) -> str:
    """Write the list of all rows, which ends on a line of its own when it is not empty."""
    if layout is _DENSE or not rows:
        return layout.array(rows, 1)
    if named:
        return _LINES.array(rows, 1)
    return f"[{', '.join(rows)}\n{_INDENT}]"


def _nest(texts: list[str], array: Array, outer: int, layout: _Lines, level: int) -> list[str]:
    """Put brackets around the texts of an array's elements, save for its first `outer` axes."""
    for axis in reversed(range(outer, array.ndim)):
        size = array.shape[axis]
        texts = [
            layout.array(texts[index * size : (index + 1) * size], level + axis - outer)
            for index in range(math.prod(array.shape[:axis]))
        ]
    return texts


def _texts(array: Array, spec: TensorSpec, layout: _Lines, level: int) -> list[str]:
    """Write each element, in row-major order."""
    flat = array.reshape(-1)
    if spec.dtype is DataType.STRING:
        if not spec.name.endswith(_BYTES_SUFFIX):
            return [_quoted(value) for value in flat]
        encoded = (base64.b64encode(value).decode() for value in flat)
        return [layout.object({"b64": f'"{text}"'}, level) for text in encoded]
    if array.dtype.kind == "f":
        return _decimals(flat)
    if array.dtype.kind == "b":
        return ["true" if value else "false" for value in flat.tolist()]
    return list(map(str, flat.tolist()))


def _few_numbers(array: Array) -> bytes | None:
    """Write an array of few numbers without white space.

    The usual reply, written with few calls; None where it takes the general way.
    """
    if array.dtype.char not in _PRINTED_ALIKE or not 0 < array.size <= EXACT_NUMBERS:
        return None
    if not array.ndim or not array.flags.c_contiguous:
        return None
    text = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
    if array.dtype.char not in "fd" or not _NOT_SHORT.search(text):
        return text
    texts = None if array.ndim > 2 else _fixed_decimals(text, array)
    if texts is None:
        return None
    if array.ndim == 1:
        return f"[{','.join(texts)}]".encode()
    size = array.shape[1]
    rows = [",".join(texts[start : start + size]) for start in range(0, len(texts), size)]
    return f"[[{'],['.join(rows)}]]".encode()


def _in_lines(text: bytes, ndim: int) -> bytes:
    """Lay out the only output, a list or a list of lists, as `_LINES` does."""
    if ndim == 1:
        return b"[\n        %b\n    ]" % text[1:-1].replace(b",", b",\n        ")
    rows = text[2:-2].replace(b",", b",\n            ")
    rows = rows.replace(b"],\n            [", b"\n        ],\n        [\n            ")
    return b"[\n        [\n            %b\n        ]\n    ]" % rows


def _decimals(values: Array) -> list[str]:
    """Write floats of one dtype as TensorFlow Serving does, in row-major order."""
    if values.dtype.char in "fd" and values.flags.c_contiguous and values.size:
        text = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
        texts = _fixed_decimals(text, values)
        if texts is not None:
            return texts
    return _any_decimals(values)


def _fixed_decimals(text: bytes, values: Array) -> list[str] | None:
    """Write floats that need no exponent; None when one might.

    orjson, which has printed `text`, gives the shortest decimals that read back as the same value.
    Where one has up to 6 digits, no other of 6 digits lies between the value's neighbours, so
    `%.6g` gives the same; where it has more, `%.6g` reads back as another value.
    """
    numbers = tuple(values.reshape(-1).tolist())
    if b"n" in text or b"e" in text or b"0.0000" in text:
        return None  # not finite, or very large or small
    if max(numbers) >= _LEAST_WITH_EXPONENT or min(numbers) <= -_LEAST_WITH_EXPONENT:
        return None
    shortest = text.decode().replace("[", "").replace("]", "").split(",")
    six = ("%.6g " * len(numbers) % numbers).split()
    exact = (_EXACT[values.dtype.char] * len(numbers) % numbers).split()
    return [
        short if short == brief or short == brief + ".0" else long
        for short, brief, long in zip(shortest, six, exact, strict=True)
    ]


def _any_decimals(values: Array) -> list[str]:
    """Write floats, also those that are not finite, or take an exponent."""
    numbers = values.tolist()
    texts = _printed("%.6g ", numbers)
    survives = (np.array(list(map(float, texts)), values.dtype) == values).tolist()
    if not all(survives):
        exact = _printed("%.17g " if values.dtype == np.float64 else "%.9g ", numbers)
        texts = [
            short if same else long
            for short, long, same in zip(texts, exact, survives, strict=True)
        ]
    return [
        text if "." in text or "e" in text else _WORDS.get(text) or text + ".0" for text in texts
    ]


def _printed(form: str, numbers: list[float]) -> list[str]:
    return (form * len(numbers) % tuple(numbers)).split()


def _compact(outputs: Mapping[str, Array], form: Format) -> bytes | bytearray:
    """Write numbers and booleans straight from numpy's memory."""
    if form is Format.ROW and len(outputs) > 1:
        rows = zip(*map(np.ascontiguousarray, outputs.values()), strict=True)
        content = [dict(zip(outputs, row, strict=True)) for row in rows]
        return orjson.dumps({"predictions": content}, option=orjson.OPT_SERIALIZE_NUMPY)
    reply = bytearray()  # it grows in place: one join would hold the interpreter for all its length
    if len(outputs) == 1:
        reply += b'{"predictions":' if form is Format.ROW else b'{"outputs":'
        for piece in _dense(next(iter(outputs.values()))):
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


def _dense(array: Array) -> Iterator[bytes | memoryview]:
    """Write one array, in pieces: orjson holds the interpreter for as long as a call lasts."""
    if array.ndim == 0:
        yield orjson.dumps(array[()], option=orjson.OPT_SERIALIZE_NUMPY)
        return
    whole = np.ascontiguousarray(array)
    rows = max(1, PIECE // max(1, math.prod(whole.shape[1:])))
    separator = b"["
    for start in range(0, len(whole), rows):
        text = orjson.dumps(whole[start : start + rows], option=orjson.OPT_SERIALIZE_NUMPY)
        yield separator
        yield memoryview(text)[1:-1]
        separator = b","
    yield b"]" if len(whole) else b"[]"


def _with_words(reply: bytes | bytearray, array: Array) -> bytes:
    """Put the words for what is not finite in place of orjson's nulls, which are in order."""
    odd = array[~np.isfinite(array)].tolist()
    words = [_WORDS[str(value)].encode() for value in odd]
    parts = bytes(reply).split(b"null")
    return b"".join(chain.from_iterable(zip(parts, [*words, b""], strict=True)))


def _is_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _quoted(value: bytes) -> str:
    return _quoted_text(value.decode("utf-8", "surrogateescape"))


def _quoted_text(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_WORDS: Final = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
