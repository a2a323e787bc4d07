"""`when`: what is asked of one tensor, such as `detect.count > 0`.

    CONDITION = [FUNCTION "("] STEP.ITEM [")"] [OPERATOR VALUE]

FUNCTION: size, rows, max, min, any, all; without one the tensor has one element.
OPERATOR: == != < <= > >=. VALUE: a number, true, false, or 'text'. Without them it must be true.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ie_serving.core.errors import InvalidTensor
from ie_serving.core.tensors import Array

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


def _rows(array: Array) -> int:
    return int(array.shape[0]) if array.ndim else 1


FUNCTIONS: Mapping[str, Callable[[Array], Any]] = {
    "size": lambda array: array.size,
    "rows": _rows,
    "max": lambda array: _plain(array.max()),
    "min": lambda array: _plain(array.min()),
    "any": lambda array: bool(array.any()),
    "all": lambda array: bool(array.all()),
}

# A tensor without elements has no greatest: such a test does not hold, whatever it compares with.
_OF_ELEMENTS = frozenset({"max", "min"})

WORDS: Mapping[str, bool] = {"true": True, "false": False}


@dataclass(frozen=True)
class Condition:
    """A test of one tensor; see above.

    Attributes:
        text: as it is written.
        of: what it looks at, `step.item`.
        function: a key of `FUNCTIONS`; empty for none.
        sign: a key of `SIGNS`; empty where the value itself must be true.
        value: what it is compared with.
    """

    text: str
    of: str
    function: str = ""
    sign: str = ""
    value: object = True

    def holds(self, array: Array) -> bool:
        """Test it.

        Raises:
            InvalidTensor: not one element, or of another kind than what it is compared with.
        """
        if self.function in _OF_ELEMENTS and not array.size:
            return False
        found = FUNCTIONS[self.function](array) if self.function else single(array)
        if not self.sign:
            return bool(found)
        try:
            return bool(SIGNS[self.sign](found, self.value))
        except TypeError:
            raise InvalidTensor(
                f"when: {self.text}: {self.of} is {found!r}, which cannot be compared with"
                f" {self.value!r}"
            ) from None


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
    return _plain(array.reshape(-1)[0])


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.generic) else value


def _value(text: str) -> object | None:
    if text.startswith("'"):
        return text[1:-1]
    if text in WORDS:
        return WORDS[text]
    try:
        return float(text)
    except ValueError:
        return None
