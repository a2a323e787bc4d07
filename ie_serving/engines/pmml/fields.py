"""What a PMML document says of the fields that requests bring, and which values it takes.

The library computes with whatever it gets: for a value that the document excludes it answers
nothing, or a made-up number. So values are looked at before.

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
"""Element types by the document's words. Dates and times have none."""

ACTIVE = (None, "active")
"""Usage of a field that a request brings."""
REFUSED = (None, "returnInvalid")
"""Treatments of values that the document excludes by which there is no result."""
SHOWN = 10
"""How many of the values that a field takes an error lists."""


@dataclass(frozen=True)
class Interval:
    """A range of numbers.

    Attributes:
        low: infinite where it is open.
        high: see `low`.
        closure: `openClosed` and the like: whether the ends belong to it.
    """

    low: float
    high: float
    closure: str

    def __str__(self) -> str:
        left = "(" if self.closure.startswith("open") else "["
        right = ")" if self.closure.endswith("Open") else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"

    def without(self, array: Array) -> Array:
        """Tell which numbers lie outside."""
        below = array <= self.low if self.closure.startswith("open") else array < self.low
        above = array >= self.high if self.closure.endswith("Open") else array > self.high
        return np.asarray(below | above)


@dataclass(frozen=True)
class Field:
    """A field that every request brings, one value for each row.

    Attributes:
        name: of the field, and of the input.
        dtype: of its values.
        values: the only ones that are taken, as text; none: every one is.
        intervals: where numbers must lie; none: anywhere.
        takes_missing: the model has an answer where a number is missing (NaN).
    """

    name: str
    dtype: DataType
    values: frozenset[str]
    intervals: Sequence[Interval]
    takes_missing: bool

    def check(self, array: Array) -> None:
        """Refuse values for which the model has no answer.

        Args:
            array: numbers, or Python's texts; one for each row.

        Raises:
            InvalidTensor: naming the row and what is taken.
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
    """Read the fields that requests bring, by name.

    Raises:
        LoadFailed: a field has a type that requests cannot bring, or there is no model.
        ElementTree.ParseError: it is no XML.
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
    """Name the fields of the document's `<Output>`; none where there is no such element."""
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
    """Write a value so that equal ones are written alike: 1 and 1.0, True and true."""
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
