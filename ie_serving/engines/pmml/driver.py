"""Serves PMML documents, which banks and insurers export, by PMML4S in a Java process.

The library does not check values: for one that the document excludes it gives no result, or an
arbitrary number. So the driver reads the input fields of the document, and checks the values of a
request against them first.

Source: PMML 4.4, DataDictionary (DataField, Value, Interval) and MiningSchema (MiningField).
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Array, Arrays, DataType, tensor
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.pmml import java
from ie_serving.engines.pmml.java import OutputField, Scorer
from ie_serving.engines.run.function import needed, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.tabular import rows
from ie_serving.engines.tabular.rows import LABEL, PROBABILITIES, TensorForm, Y, compiled

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
class InputField:
    """An input field, with one value for each row.

    Attributes:
        name: name of the field, and of the input.
        dtype: dtype of its values.
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
        """Refuse values for which the model has no outputs.

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


def fields_of(content: str) -> Mapping[str, InputField]:
    """Read the input fields by name.

    Raises:
        LoadFailed: a field has a type without a dtype, or the document has no model.
        ElementTree.ParseError: the content is not XML.
    """
    root = ElementTree.fromstring(content)
    schema = next((found for model in root for found in _children(model, "MiningSchema")), None)
    if schema is None:
        raise LoadFailed("the PMML document holds no model: an element with a MiningSchema")
    declared = {each.get("name"): each for each in root.iter() if _tag(each) == "DataField"}
    strategies = {each.get("missingValueStrategy", "none") for each in root.iter()}
    takes_missing = strategies != {"none"}
    return {
        str(used.get("name")): _field(declared[used.get("name")], used, takes_missing)
        for used in _children(schema, "MiningField")
        if used.get("usageType") in ACTIVE and used.get("name") in declared
    }


def outputs_of(content: str) -> frozenset[str]:
    """Name the fields of the document's `<Output>`; empty without such an element."""
    every = ElementTree.fromstring(content).iter()
    return frozenset(str(each.get("name")) for each in every if _tag(each) == "OutputField")


def _field(declared: ElementTree.Element, used: ElementTree.Element, missing: bool) -> InputField:
    name, word = str(declared.get("name")), declared.get("dataType", "")
    if word not in DTYPES:
        known = ", ".join(DTYPES)
        raise LoadFailed(f'field "{name}" has the type {word}; requests can bring {known}')
    excludes = used.get("invalidValueTreatment") in REFUSED
    return InputField(
        name,
        DTYPES[word],
        frozenset(_values(declared)) if excludes else frozenset(),
        tuple(map(_interval, _children(declared, "Interval"))) if excludes else (),
        missing or used.get("missingValueReplacement") is not None,
    )


def _values(declared: ElementTree.Element) -> Iterator[str]:
    for each in _children(declared, "Value"):
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


def _children(parent: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    return (each for each in parent if _tag(each) == tag)


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


LIBRARY = "pypmml"
TYPES: Mapping[str, DataType] = {
    "string": DataType.STRING,
    "integer": DataType.INT64,
    "boolean": DataType.BOOL,
}
"""Element types of outputs by the library's names; other names mean real numbers."""

ColumnIndices = Mapping[str, Sequence[int]]
"""The columns of each output in the library's result."""


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a document. See `engines.drivers.LoadDirectory`."""
    driver_params.check_known(options, (driver_params.ANSWERS,), "pmml")
    as_library = driver_params.as_library(options)
    with needed(LIBRARY, "pmml", file.name):
        import pypmml  # noqa: F401  imported here, so that the error names what is missing
    java.check()
    with reading(LIBRARY, file.name):
        content = file.read_text("utf-8")
        every = fields_of(content)
        scorer = Scorer(content, with_label=as_library)
        fields = [_listed_field(every, name) for name in scorer.inputs]
        form, columns = _form(fields, scorer)
        if as_library:
            # The library adds outputs that the document does not declare, such as a confidence.
            form, columns = _named_form(fields, scorer, {*outputs_of(content), *scorer.targets})
    predict = partial(_predict, scorer, fields, columns)
    return compiled(form, predict, options, library=LIBRARY)


def _listed_field(fields: Mapping[str, InputField], name: str) -> InputField:
    if name not in fields:
        raise LoadFailed(
            f'the model reads "{name}", which its MiningSchema does not list: export it again'
        )
    return fields[name]


def _form(fields: Sequence[InputField], scorer: Scorer) -> tuple[TensorForm, ColumnIndices]:
    """Describe the tensors of a model; outputs of other kinds keep the names of their fields."""
    inputs = {each.name: tensor(each.name, each.dtype, -1) for each in fields}
    column = {each.name: at for at, each in enumerate(scorer.outputs)}
    given = [each for each in scorer.outputs if each.feature == "predictedValue"]
    classes = _classes(scorer.outputs, given)
    if scorer.function == "classification" and len(given) == 1 and len(classes) > 1:
        outputs = rows.classified(_dtype(given[0]), DataType.FP64, len(classes))
        names = rows.names_of([str(each.value) for each in classes])
        chances = [column[each.name] for each in classes]
        columns = {LABEL: [column[given[0].name]], PROBABILITIES: chances}
        return TensorForm(inputs, outputs, names), columns
    if scorer.function == "regression" and len(given) == 1:
        return TensorForm(inputs, rows.values(DataType.FP64)), {Y: [column[given[0].name]]}
    return _named_form(fields, scorer)


def _named_form(
    fields: Sequence[InputField], scorer: Scorer, wanted: Collection[str] | None = None
) -> tuple[TensorForm, ColumnIndices]:
    """Describe the tensors by the names of fields: all, or those in `wanted`.

    With `wanted`, a predicted field has the document's name, not the library's.
    """
    inputs = {each.name: tensor(each.name, each.dtype, -1) for each in fields}
    names = {} if wanted is None else scorer.targets
    named, columns = {}, {}
    for at, each in enumerate(scorer.outputs):
        if wanted is None or each.name in wanted:
            name = names.get(each.name, each.name)
            named[name] = tensor(name, _dtype(each), -1)
            columns[name] = [at]
    return TensorForm(inputs, named), columns


def _classes(outputs: Sequence[OutputField], given: Sequence[OutputField]) -> list[OutputField]:
    """Give the probability fields of single classes, in the order of the classes."""
    found = [each for each in outputs if each.feature == "probability" and each.value is not None]
    is_number = bool(given) and _dtype(given[0]) in (DataType.INT64, DataType.FP64)
    return sorted(found, key=lambda each: float(str(each.value)) if is_number else str(each.value))


def _dtype(output: OutputField) -> DataType:
    return TYPES.get(output.type, DataType.FP64)


def _predict(
    scorer: Scorer, fields: Sequence[InputField], indices: ColumnIndices, inputs: Arrays
) -> Mapping[str, Any]:
    for field in fields:
        field.check(inputs[field.name])
    columns = [_json(inputs[field.name]) for field in fields]
    asked = {"columns": [field.name for field in fields], "data": list(zip(*columns, strict=True))}
    rows = json.loads(scorer.score(json.dumps(asked)))["data"]
    return {name: _column(rows, given) for name, given in indices.items()}


def _json(array: Array) -> list[Any]:
    """Give values as JSON has them; a missing number is null."""
    return [None if value != value else value for value in array.tolist()]


def _column(rows: Sequence[Sequence[Any]], columns: Sequence[int]) -> Array:
    """Give one output for all rows, with a column for each of `columns` if there are several."""
    found = [[row[column] for column in columns] for row in rows]
    for number, row in enumerate(found):
        if None in row:
            raise InvalidTensor(
                f"the model has no result for the values of row {number}: send values that it knows"
            )
    return np.array(found)[:, 0] if len(columns) == 1 else np.array(found)
