"""Writes numbers as TensorFlow Serving does in its JSON.

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

import re
from typing import Any, Final

import numpy as np
import orjson

from ie_serving.core.values.tensors import Array

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
"""Least number whose `%g` has no exponent; from it on products of `exact_float32` are exact."""
_PLAIN_TO: Final = 999_999.0
"""Largest number whose `%.6g` has no exponent."""
_TENTH: Final = 0.1
_SIX_DIGITS: Final = 8
"""Characters of `0.123456` and `123456.0`, the longest texts of 6 digits that a number from a tenth
on has: a shorter text has no more digits, a longer one has, and at this length they are counted."""
_POWERS: Final = np.array([float(f"1e{exponent}") for exponent in range(-4, 6)])
"""Numbers from which on texts have one digit more before the point, or one zero fewer behind."""
_SCALES: Final = np.array(
    [
        [float(f"1e{min(digits + 4 - index, digits + 3)}") for index in range(11)]
        for digits in (6, 9)
    ]
)
"""Factors that make all digits integral, for 6 and for 9 digits, by index among `_POWERS`."""


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
    for index, number in enumerate(values.ravel().tolist()):
        token = tokens[index]
        length = len(token)
        if _TENTH <= number <= _PLAIN_TO and length != _SIX_DIGITS:
            if length > _SIX_DIGITS:
                tokens[index] = form % number
        elif number and not _PLAIN_FROM <= abs(number) <= _PLAIN_TO:
            tokens[index] = _by_rule(number, kind, form)
        elif len(token.strip(b"-0.").replace(b".", b"")) > 6:
            tokens[index] = form % number
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
    indices = np.flatnonzero(odd).tolist()
    if indices:
        wide[odd] = sizes[odd] = 0
    scales = _SCALES[:, _POWERS.searchsorted(sizes, "right")]
    both = np.rint(wide * scales)
    both /= scales
    six, nine = both
    text = orjson.dumps(np.where(six.astype(np.float32) == values, six, nine), option=_NUMPY)
    if not indices:
        return text
    tokens = text.split(b",")
    for index, written in zip(indices, any_floats(values[odd]), strict=True):
        tokens[index] = tokens[index].replace(b"0.0", written.encode())
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
