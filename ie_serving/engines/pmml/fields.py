"""Reads the input fields of a PMML document, and checks the values of requests against them.

The library does not check values: for one that the document excludes it gives no result, or an
arbitrary number. So the values of a request are checked first.

Source: PMML 4.4, DataDictionary (DataField, Value, Interval) and MiningSchema (MiningField).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Array, DataType

DTYPES: Mapping[str, DataType] = {
    "double": DataType.FP64,
    "float": DataType.FP32,
    "integer": DataType.INT64,
    "string": DataType.STRING,
    "boolean": DataType.BOOL,
}
"""Element types by the document's names. Dates and times have none."""

ACTIVE = (None, "active")
"""Usages of a field that is an input."""
REFUSED = (None, "returnInvalid")
"""Treatments of excluded values that give no result."""
SHOWN = 10
"""Most accepted values that an error lists."""


@dataclass(frozen=True)
class Interval:
    """A range of numbers.

    Attributes:
        low: lower end; infinite if there is none.
        high: upper end; infinite if there is none.
        closure: `openClosed` and the like: which ends belong to the interval.
    """

    low: float
    high: float
    closure: str

    def __str__(self) -> str:
        left = "(" if self.closure.startswith("open") else "["
        right = ")" if self.closure.endswith("Open") else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"

    def without(self, array: Array) -> Array:
        """Give a mask of the numbers outside the interval."""
        below = array <= self.low if self.closure.startswith("open") else array < self.low
        above = array >= self.high if self.closure.endswith("Open") else array > self.high
        return np.asarray(below | above)


@dataclass(frozen=True)
class Field:
    """An input field, with one value for each row.

    Attributes:
        name: of the field, and of the input.
        dtype: of its values.
        values: accepted values, as text; empty accepts all.
        intervals: accepted intervals of numbers; empty accepts all.
        takes_missing: the model accepts a missing number (NaN).
    """

    name: str
    dtype: DataType
    values: frozenset[str]
    intervals: Sequence[Interval]
    takes_missing: bool

    def check(self, array: Array) -> None:
        """Refuse values for which the model has no answer.

        Args:
            array: numbers, or Python strings; one for each row.

        Raises:
            InvalidTensor: naming the row and the accepted values.
        """
        if array.dtype.kind == "f":
            self._refuse(array, np.isinf(array), "finite numbers")
            missing = np.isnan(array)
            if not self.takes_missing:
                self._refuse(array, missing, "a number in each row")
            if self.intervals:
                self._check_intervals(array, missing)
        elif self.intervals:
            self._check_intervals(array, np.zeros(array.shape, np.bool_))
        if self.values:
            listed = ", ".join(sorted(self.values)[:SHOWN])
            known = [_text(value) in self.values for value in array.tolist()]
            self._refuse(array, ~np.array(known, np.bool_), f"one of {listed}")

    def _check_intervals(self, array: Array, missing: Array) -> None:
        outside = ~missing
        for each in self.intervals:
            outside = outside & each.without(array)
        self._refuse(array, outside, f"a number in {' or '.join(map(str, self.intervals))}")

    def _refuse(self, array: Array, wrong: Array, expected: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidTensor(
                f'input "{self.name}" holds {array[row]} in row {row}: the model takes {expected}'
            )


def fields_of(content: str) -> Mapping[str, Field]:
    """Read the input fields by name.

    Raises:
        LoadFailed: a field has a type without a dtype, or the document has no model.
        ElementTree.ParseError: the content is not XML.
    """
    root = ElementTree.fromstring(content)
    schema = next((found for model in root for found in _named(model, "MiningSchema")), None)
    if schema is None:
        raise LoadFailed("the PMML document holds no model: an element with a MiningSchema")
    declared = {each.get("name"): each for each in root.iter() if _tag(each) == "DataField"}
    strategies = {each.get("missingValueStrategy", "none") for each in root.iter()}
    takes_missing = strategies != {"none"}
    return {
        str(used.get("name")): _field(declared[used.get("name")], used, takes_missing)
        for used in _named(schema, "MiningField")
        if used.get("usageType") in ACTIVE and used.get("name") in declared
    }


def outputs_of(content: str) -> frozenset[str]:
    """Name the fields of the document's `<Output>`; empty without such an element."""
    every = ElementTree.fromstring(content).iter()
    return frozenset(str(each.get("name")) for each in every if _tag(each) == "OutputField")


def _field(declared: ElementTree.Element, used: ElementTree.Element, missing: bool) -> Field:
    name, word = str(declared.get("name")), declared.get("dataType", "")
    if word not in DTYPES:
        known = ", ".join(DTYPES)
        raise LoadFailed(f'field "{name}" has the type {word}; requests can bring {known}')
    excludes = used.get("invalidValueTreatment") in REFUSED
    return Field(
        name,
        DTYPES[word],
        frozenset(_values(declared)) if excludes else frozenset(),
        tuple(map(_interval, _named(declared, "Interval"))) if excludes else (),
        missing or used.get("missingValueReplacement") is not None,
    )


def _values(declared: ElementTree.Element) -> Iterator[str]:
    for each in _named(declared, "Value"):
        if each.get("property", "valid") == "valid":
            yield _text(_number(each.get("value", ""), declared.get("dataType", "")))


def _number(text: str, word: str) -> str | float:
    return text if DTYPES.get(word) in (DataType.STRING, DataType.BOOL) else float(text)


def _text(value: object) -> str:
    """Write a value as text, the same for equal values: 1 and 1.0, True and true."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _interval(found: ElementTree.Element) -> Interval:
    low, high = (float(found.get(f"{end}Margin", math.nan)) for end in ("left", "right"))
    return Interval(
        -math.inf if math.isnan(low) else low,
        math.inf if math.isnan(high) else high,
        found.get("closure", "closedClosed"),
    )


def _named(parent: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    return (each for each in parent if _tag(each) == tag)


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
