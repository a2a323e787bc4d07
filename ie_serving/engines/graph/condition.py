"""`when`: a condition on one tensor, such as `detect.count > 0`.

    CONDITION = [FUNCTION "("] STEP.ITEM [")"] [OPERATOR VALUE]

FUNCTION: size, rows, max, min, any, all; without one the tensor has one element.
OPERATOR: == != < <= > >=. VALUE: a number, true, false, or 'text'. Without them it must be true.

A number is compared exactly with integers. For elements of a floating dtype it is rounded to that
dtype first, as the element was: a float32 of 0.7 equals 0.7, and is not less.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array, DataType

FORM = re.compile(
    r"""\s* (?: (?P<function>[a-z]+) \( \s* (?P<inner>[^\s()]+) \s* \) | (?P<plain>[^\s()]+) )
        \s* (?: (?P<sign>==|!=|<=|>=|<|>) \s* (?P<value>'[^']*'|[^\s']+) )? \s*""",
    re.VERBOSE,
)

SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

# An empty tensor has no maximum or minimum: such a test is false for every value.
_OF_ELEMENTS = frozenset({"max", "min"})
_GIVE_ELEMENTS = frozenset({"", *_OF_ELEMENTS})
WORDS: Mapping[str, bool] = {"true": True, "false": False}


def _rows(array: Array) -> int:
    return int(array.shape[0]) if array.ndim else 1


FUNCTIONS: Mapping[str, Callable[[Array], Any]] = {
    "size": lambda array: array.size,
    "rows": _rows,
    "max": lambda array: _python_value(array.max()),
    "min": lambda array: _python_value(array.min()),
    "any": lambda array: bool(array.any()),
    "all": lambda array: bool(array.all()),
}


@dataclass(frozen=True)
class Condition:
    """A test of one tensor; see above.

    Attributes:
        text: text of the condition as written.
        of: the tensor it tests, `step.item`.
        function: a key of `FUNCTIONS`; empty for none.
        sign: a key of `SIGNS`; empty where the value itself must be true.
        value: the value to compare with.
        met: the item's dtype at load, and the value rounded to it; a later version of the model
            may give another dtype.
    """

    text: str
    of: str
    function: str = ""
    sign: str = ""
    value: object = True
    met: "tuple[np.dtype[Any] | None, object]" = (None, None)

    def meeting(self, dtype: DataType) -> "Condition":
        """Give the condition for items of this dtype: its value is rounded once, and not again."""
        if not self._of_element:
            return self
        return replace(self, met=(dtype.numpy, round_to(self.value, dtype.numpy)))

    def holds(self, array: Array) -> bool:
        """Test it.

        Raises:
            InvalidTensor: not one element, or of another kind than `value`.
        """
        if self.function in _OF_ELEMENTS and not array.size:
            return False
        found = FUNCTIONS[self.function](array) if self.function else single(array)
        if not self.sign:
            return bool(found)
        value = self._value_for(array.dtype)
        if isinstance(found, str) != isinstance(value, str):
            raise self._incomparable(found)
        try:
            return bool(SIGNS[self.sign](found, value))
        except TypeError:  # complex numbers have no order
            raise self._incomparable(found) from None

    def fault(self, dtype: DataType) -> str:
        """Say why an item of this dtype can never be compared; empty where it can."""
        is_text = dtype is DataType.STRING and self._of_element
        if not self.sign or is_text == isinstance(self.value, str):
            return ""
        kinds = ("text", "a number") if is_text else ("a number", "text")
        what = f"{self.function}({self.of})" if self.function else self.of
        return f"{what} is {kinds[0]}, and {self.value!r} is {kinds[1]}; compare with {kinds[0]}"

    @property
    def _of_element(self) -> bool:
        return self.function in _GIVE_ELEMENTS

    def _value_for(self, dtype: "np.dtype[Any]") -> object:
        met, value = self.met
        if met is dtype:
            return value
        return round_to(self.value, dtype) if self._of_element else self.value

    def _incomparable(self, found: object) -> InvalidTensor:
        return InvalidTensor(
            f"when: {self.text}: {self.of} is {found!r}, which cannot be compared with"
            f" {self.value!r}"
        )


def parse(text: str) -> Condition | None:
    """Read a condition; None where it is none."""
    match = FORM.fullmatch(text)
    if match is None or (match["function"] and match["function"] not in FUNCTIONS):
        return None
    of = match["inner"] or match["plain"]
    if not match["sign"]:
        return Condition(text, of, match["function"] or "")
    value = _value(match["value"])
    return (
        None
        if value is None
        else Condition(text, of, match["function"] or "", match["sign"], value)
    )


def single(array: Array) -> object:
    """Give the one element of a tensor as Python has it, bytes as text.

    Raises:
        InvalidTensor: there is none, or there are several.
    """
    if array.size != 1:
        raise InvalidTensor(
            f"one value is expected to choose by, and a tensor of shape {list(array.shape)} came"
        )
    return _python_value(array.reshape(-1)[0])


def _python_value(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.generic) else value


def _value(text: str) -> object | None:
    if text.startswith("'"):
        return text[1:-1]
    if text in WORDS:
        return WORDS[text]
    for read in (int, float):  # an int has all digits of an int64, which a float has not
        with suppress(ValueError):
            return read(text)
    return None


def round_to(value: object, dtype: np.dtype[Any]) -> object:
    """Round a number to a floating dtype; anything else, or beyond its range, stays as it is."""
    if isinstance(value, bool | str) or not np.issubdtype(dtype, np.floating):
        return value
    with suppress(OverflowError), np.errstate(over="ignore"):
        rounded = dtype.type(value).item()
        return value if math.isinf(rounded) else rounded
    return value
