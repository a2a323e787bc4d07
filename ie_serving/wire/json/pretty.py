"""Writes replies of at most `EXACT_NUMBERS` elements in TensorFlow Serving's layout.

Rows are on one line; columns, and the members of objects, take a line for each value, four spaces a
level. Strings are written unchanged, also where they are not UTF-8. A string output whose name ends
in `_bytes` has objects `{"b64": ...}`, and a JSON output has the JSON in its texts. `DENSE` is for
larger replies with strings in them: the same without white space.

Source: json_tensor.cc of TensorFlow Serving; prettywriter.h of RapidJSON 1.1.0.

Also writes numbers as TensorFlow Serving does.

Its rule for a float: `%.6g` when that reads back as the same value of its dtype, else `%.9g`
(double: `%.17g`), with `.0` after a text with neither `.` nor `e`. Done literally, this prints a
number twice and reads it back, some 10,000 instructions. There are shorter ways, and a test checks
all of them against the rule:

- Where the shortest text that reads back as the same value (orjson prints it) has up to 6 digits
  and no exponent, no other number of 6 digits lies between the value's neighbours: `%.6g` gives the
  same. Where it has more, `%.6g` reads back as another value. So the digits are counted
  (`is_short`, `are_long`, `texts_of`).
- Many float32 are rounded to 6 and to 9 digits at once (`exact_float32`), in exact arithmetic:
  the 24 bits of a float32 times a power of ten up to 10^12 (28 bits beside its power of two) fit
  the 53 bits of a double, so the product is the value itself, and rounding it half to even is what
  printf does. Divided by that power it is the double nearest to the decimal, and the shortest text
  of that double is the decimal, since up to 15 digits survive in a double.
- `any_floats` follows the rule step by step, for NaN, infinity and numbers with an exponent.

Source: WriteDecimal of json_tensor.cc of TensorFlow Serving.
"""

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson

from ie_serving.core.values.tensors import BY_NUMPY, Array, DataType, TensorSpec

_BYTES_SUFFIX: Final = "_bytes"
_INDENT: Final = "    "
_TO_ESCAPE: Final = re.compile(r'["\\\x00-\x1f]')
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


class ColumnLayout:
    """Columns: a line for each value. `level` is how many brackets are open around it."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{self._lines(items, level)}]"

    def object(self, members: Mapping[str, str], level: int) -> str:
        """Write an object."""
        lines = [f'"{escaped(name)}": {value}' for name, value in members.items()]
        return f"{{{self._lines(lines, level)}}}"

    def _lines(self, items: Sequence[str], level: int) -> str:
        if not items:
            return ""
        start = "\n" + _INDENT * (level + 1)
        return start + f",{start}".join(items) + "\n" + _INDENT * level


# TensorFlow Serving switches RapidJSON's writer to one line for each list of a row, and not for
# objects: hence three layouts that differ in so little.
class _OneLine(ColumnLayout):
    """Rows: a list takes one line; objects are as among columns."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{', '.join(items)}]"


class _Dense(ColumnLayout):
    """No white space at all."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{','.join(items)}]"

    def object(self, members: Mapping[str, str], level: int) -> str:
        """Write an object."""
        return (
            f"{{{','.join([f'{quoted_text(name)}:{value}' for name, value in members.items()])}}}"
        )


LINES: Final = ColumnLayout()
ONE_LINE: Final = _OneLine()
DENSE: Final = _Dense()


def write_columns(
    outputs: Mapping[str, Array], specs: Mapping[str, TensorSpec], layout: ColumnLayout
) -> str:
    """Write `outputs`: one value, or an object of several by name."""
    named = len(outputs) > 1
    level = 2 if named else 1
    values = {}
    for name, array in outputs.items():
        texts = _texts(array, specs[name], layout, level + array.ndim)
        (values[name],) = _nest(texts, array, 0, layout, level)
    content = layout.object(values, 1) if named else next(iter(values.values()))
    return layout.object({"outputs": content}, 0)


def write_value(array: Array, spec: TensorSpec, layout: ColumnLayout) -> str:
    """Write a single output."""
    texts = _texts(array, spec, layout, array.ndim)
    (value,) = _nest(texts, array, 0, layout, 0)
    return value


def write_rows(
    outputs: Mapping[str, Array], specs: Mapping[str, TensorSpec], layout: ColumnLayout
) -> str:
    """Write `predictions`: for each row the value of the only output, or an object of all."""
    level = 3 if len(outputs) > 1 else 2
    columns = [
        _nest(_texts(array, specs[name], layout, level + array.ndim - 1), array, 1, layout, level)
        for name, array in outputs.items()
    ]
    rows = columns[0] if len(columns) == 1 else _named_rows(list(outputs), columns, layout)
    return layout.object({"predictions": _predictions(rows, level == 3, layout)}, 0)


def _named_rows(names: list[str], columns: list[list[str]], layout: ColumnLayout) -> list[str]:
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [layout.object(row, 2) for row in rows]


def _predictions(rows: list[str], named: bool, layout: ColumnLayout) -> str:
    """Write the list of all rows, which ends on a line of its own when it is not empty."""
    if layout is DENSE or not rows:
        return layout.array(rows, 1)
    if named:
        return LINES.array(rows, 1)
    return f"[{', '.join(rows)}\n{_INDENT}]"


# The innermost axis comes first, so that each text is joined once for each level around it.
def _nest(
    texts: list[str], array: Array, outer: int, layout: ColumnLayout, level: int
) -> list[str]:
    """Put brackets around the texts of an array's elements, save for its first `outer` axes."""
    for axis in reversed(range(outer, array.ndim)):
        size = array.shape[axis]
        texts = [
            layout.array(texts[index * size : (index + 1) * size], level + axis - outer)
            for index in range(math.prod(array.shape[:axis]))
        ]
    return texts


def _texts(array: Array, spec: TensorSpec, layout: ColumnLayout, level: int) -> list[str]:
    """Write each element, in row-major order."""
    flat = array.reshape(-1)
    if spec.dtype is DataType.STRING:
        if spec.json:
            return [value.decode() for value in flat]
        if not spec.name.endswith(_BYTES_SUFFIX):
            return [quoted(value) for value in flat]
        encoded = (base64.b64encode(value).decode() for value in flat)
        return [layout.object({"b64": f'"{text}"'}, level) for text in encoded]
    if array.dtype.kind == "f":
        return floats(flat)
    if array.dtype.kind == "b":
        return ["true" if value else "false" for value in flat.tolist()]
    return list(map(str, flat.tolist()))


def value_of(array: Array, layout: ColumnLayout, quote: Callable[[bytes], str]) -> str:
    """Write one array as a value; `quote` writes the strings in it."""
    if array.dtype.kind == "O":
        texts = [quote(value) for value in array.reshape(-1)]
    else:
        texts = _texts(array, TensorSpec("", BY_NUMPY[array.dtype], None, ""), layout, 0)
    (value,) = _nest(texts, array, 0, layout, 0)
    return value


def quoted(value: bytes) -> str:
    """Write bytes as a JSON string."""
    return quoted_text(value.decode("utf-8", "surrogateescape"))


def quoted_text(text: str) -> str:
    """Write text as a JSON string."""
    return f'"{escaped(text)}"'


def escaped(text: str) -> str:
    """Write the text between the quotation marks of a JSON string."""
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)


# The reply may then be no valid UTF-8; TensorFlow Serving sends a model's bytes as they are too.
def encoded(text: str) -> bytes:
    """Give the bytes of a reply; those of a string that were no UTF-8 come back."""
    return text.encode("utf-8", "surrogateescape")


WORDS: Final = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""TensorFlow Serving's words for NaN and infinity, by Python's words for them."""

_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY
FEW: Final = 20
"""Float32 up to which looking at one after the other, some 2,000 instructions each, costs less than
a dozen numpy calls for all."""

_SHORT: Final = re.compile(rb"[\[\]]*(?:-?[0-9.]{1,7}[\],\[]+)*")
"""A list, or lists of lists, of numbers without exponent of at most 7 characters: 6 digits and the
point."""

are_long: Final = re.compile(
    rb"[\[\]]*(?:-?(?:[1-9]\.[0-9]{6,}|0\.0{0,3}[1-9][0-9]{6,}"
    rb"|(?=[0-9.]{8})[1-9][0-9]{1,5}\.(?!0[\],])[0-9]+)[\],\[]+)*"
).fullmatch
"""Tell whether each number of orjson's text, a list or lists of lists, has more than 6 digits and
lies between `_PLAIN_FROM` and a million, so that `LONG_FORMS` writes it. The cases: one digit is
before the point, a zero, or more digits, which no `.0` may follow. There is one way to read each
number. With k ways, n numbers before one that fails take k^n steps: with the six that there once
were, a dozen took minutes."""

LEAST_LONG: Final = 9
"""Characters that a number takes at least where `are_long` holds, with the comma or bracket behind
it: so the length of a text rules most others out, without the expression."""

LONG_FORMS: Final = {"f": b"%.9g", "d": b"%.17g"}
"""How a number of more than 6 digits is written, by numpy's character of its dtype."""

_PLAIN_FROM: Final = 1e-4
"""From here on `%g` needs no exponent, and the products of `exact_float32` are exact."""
_PLAIN_TO: Final = 999_999.0
"""Up to here `%.6g` needs none."""
_TENTH: Final = 0.1
_SIX_DIGITS: Final = 8
"""Characters of `0.123456` and `123456.0`, the longest texts of 6 digits that a number from a tenth
on has: a shorter text has no more digits, a longer one has, and at this length they are counted."""
_POWERS: Final = np.array([float(f"1e{exponent}") for exponent in range(-4, 6)])
"""Where numbers begin to have one digit more before the point, or one zero fewer behind it."""
_SCALES: Final = np.array(
    [
        [float(f"1e{min(digits + 4 - place, digits + 3)}") for place in range(11)]
        for digits in (6, 9)
    ]
)
"""For 6 and for 9 digits, by place among `_POWERS`: the factor that makes all digits integral."""


def is_short(text: bytes) -> bool:
    """Tell whether orjson's text of floats, one list or nested ones, is TensorFlow Serving's."""
    return b"0.0000" not in text and _SHORT.fullmatch(text) is not None


def texts_of(text: bytes, values: Array) -> list[bytes]:
    """Write each of some doubles, or of up to `FEW` float32.

    Args:
        text: orjson's text of `values`, one list or nested ones.
        values: contiguous, at least one.
    """
    kind, form = values.dtype.type, LONG_FORMS[values.dtype.char]
    tokens = text.translate(None, b"[]").split(b",")
    for place, number in enumerate(values.ravel().tolist()):
        token = tokens[place]
        length = len(token)
        if _TENTH <= number <= _PLAIN_TO and length != _SIX_DIGITS:
            if length > _SIX_DIGITS:
                tokens[place] = form % number
        elif number and not _PLAIN_FROM <= abs(number) <= _PLAIN_TO:
            tokens[place] = _by_rule(number, kind, form)
        elif len(token.strip(b"-0.").replace(b".", b"")) > 6:
            tokens[place] = form % number
    return tokens


def _by_rule(number: float, dtype: type[np.floating[Any]], form: bytes) -> bytes:
    """Write one number that is not finite, or takes an exponent."""
    text = b"%.6g" % number
    if dtype(float(text)) != number:
        text = form % number
    if b"." in text or b"e" in text:
        return text
    word = WORDS.get(text.decode())
    return word.encode() if word else text + b".0"


def exact_float32(values: Array) -> bytes:
    """Write float32 in the nesting that they have: more than `FEW`, and contiguous.

    They are rounded to 6 and to 9 digits, so that the shortest texts are TensorFlow Serving's.
    """
    wide = values.astype(np.float64)
    sizes = np.abs(wide)
    odd = ~((sizes <= _PLAIN_TO) & ((sizes >= _PLAIN_FROM) | (sizes == 0)))  # NaN too
    places = np.flatnonzero(odd).tolist()
    if places:
        wide[odd] = sizes[odd] = 0
    scales = _SCALES[:, _POWERS.searchsorted(sizes, "right")]
    both = np.rint(wide * scales)
    both /= scales
    six, nine = both
    text = orjson.dumps(np.where(six.astype(np.float32) == values, six, nine), option=_NUMPY)
    if not places:
        return text
    tokens = text.split(b",")
    for place, written in zip(places, any_floats(values[odd]), strict=True):
        tokens[place] = tokens[place].replace(b"0.0", written.encode())
    return b",".join(tokens)


# float16 goes by the rule: several texts of 6 digits read back as the same value of so few bits.
def floats(values: Array) -> list[str]:
    """Write floats of one dtype and dimension, whatever they are."""
    if values.dtype.char not in "fd" or not values.size:
        return any_floats(values)
    values = np.ascontiguousarray(values)
    if values.dtype.char == "f" and values.size > FEW:
        return exact_float32(values)[1:-1].decode().split(",")
    return [each.decode() for each in texts_of(orjson.dumps(values, option=_NUMPY), values)]


def any_floats(values: Array) -> list[str]:
    """Write floats by the rule, step by step."""
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
        text if "." in text or "e" in text else WORDS.get(text) or text + ".0" for text in texts
    ]


# One formatting of all numbers together: Python's `%` costs its overhead once, not for each.
def _printed(form: str, numbers: list[float]) -> list[str]:
    return (form * len(numbers) % tuple(numbers)).split()
