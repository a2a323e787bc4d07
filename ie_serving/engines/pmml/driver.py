"""Serves PMML documents, which banks and insurers export, by PMML4S in a Java process."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Array, Arrays, DataType
from ie_serving.engines import declared
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.pmml import java
from ie_serving.engines.pmml.fields import Field, fields_of, outputs_of
from ie_serving.engines.pmml.java import OutputField, Scorer
from ie_serving.engines.run.function import needed, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.tabular import form as tabular
from ie_serving.engines.tabular.compiled import compiled
from ie_serving.engines.tabular.form import LABEL, PROBABILITIES, TensorForm, Y

LIBRARY = "pypmml"
TYPES: Mapping[str, DataType] = {
    "string": DataType.STRING,
    "integer": DataType.INT64,
    "boolean": DataType.BOOL,
}
"""Element types of outputs by the library's names; other names mean real numbers."""

Places = Mapping[str, Sequence[int]]
"""The columns of each output in the library's result."""


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a document. See `engines.listed.Load`."""
    declared.check_known(options, (declared.ANSWERS,), "pmml")
    as_library = declared.as_library(options)
    with needed(LIBRARY, "pmml", file.name):
        import pypmml  # noqa: F401  imported here, so that the error names what is missing
    java.check()
    with reading(LIBRARY, file.name):
        content = file.read_text("utf-8")
        every = fields_of(content)
        scorer = Scorer(content, with_label=as_library)
        fields = [_known(every, name) for name in scorer.inputs]
        form, places = _form(fields, scorer)
        if as_library:
            # The library adds outputs that the document does not declare, such as a confidence.
            form, places = _named(fields, scorer, {*outputs_of(content), *scorer.targets})
    predict = partial(_predict, scorer, fields, places)
    return compiled(form, predict, options, library=LIBRARY)


def _known(fields: Mapping[str, Field], name: str) -> Field:
    if name not in fields:
        raise LoadFailed(f'the model reads "{name}", which its MiningSchema does not list')
    return fields[name]


def _form(fields: Sequence[Field], scorer: Scorer) -> tuple[TensorForm, Places]:
    """Describe the tensors of a model; outputs of other kinds keep the names of their fields."""
    inputs = {each.name: tabular.tensor(each.name, each.dtype, -1) for each in fields}
    column = {each.name: at for at, each in enumerate(scorer.outputs)}
    given = [each for each in scorer.outputs if each.feature == "predictedValue"]
    classes = _classes(scorer.outputs, given)
    if scorer.function == "classification" and len(given) == 1 and len(classes) > 1:
        outputs = tabular.classified(_dtype(given[0]), DataType.FP64, len(classes))
        names = tabular.names_of([str(each.value) for each in classes])
        chances = [column[each.name] for each in classes]
        places = {LABEL: [column[given[0].name]], PROBABILITIES: chances}
        return TensorForm(inputs, outputs, names), places
    if scorer.function == "regression" and len(given) == 1:
        return TensorForm(inputs, tabular.values(DataType.FP64)), {Y: [column[given[0].name]]}
    return _named(fields, scorer)


def _named(
    fields: Sequence[Field], scorer: Scorer, wanted: Collection[str] | None = None
) -> tuple[TensorForm, Places]:
    """Describe the tensors by the names of fields: all, or those in `wanted`.

    With `wanted`, a predicted field has the document's name, not the library's.
    """
    inputs = {each.name: tabular.tensor(each.name, each.dtype, -1) for each in fields}
    names = {} if wanted is None else scorer.targets
    named, places = {}, {}
    for at, each in enumerate(scorer.outputs):
        if wanted is None or each.name in wanted:
            name = names.get(each.name, each.name)
            named[name] = tabular.tensor(name, _dtype(each), -1)
            places[name] = [at]
    return TensorForm(inputs, named), places


def _classes(outputs: Sequence[OutputField], given: Sequence[OutputField]) -> list[OutputField]:
    """Give the probability fields of single classes, in the order of the classes."""
    found = [each for each in outputs if each.feature == "probability" and each.value is not None]
    is_number = bool(given) and _dtype(given[0]) in (DataType.INT64, DataType.FP64)
    return sorted(found, key=lambda each: float(str(each.value)) if is_number else str(each.value))


def _dtype(output: OutputField) -> DataType:
    return TYPES.get(output.type, DataType.FP64)


def _predict(
    scorer: Scorer, fields: Sequence[Field], places: Places, inputs: Arrays
) -> Mapping[str, Any]:
    for field in fields:
        field.check(inputs[field.name])
    columns = [_json(inputs[field.name]) for field in fields]
    asked = {"columns": [field.name for field in fields], "data": list(zip(*columns, strict=True))}
    rows = json.loads(scorer.score(json.dumps(asked)))["data"]
    return {name: _column(rows, columns) for name, columns in places.items()}


def _json(array: Array) -> list[Any]:
    """Give values as JSON has them; a missing number is null."""
    return [None if value != value else value for value in array.tolist()]


def _column(rows: Sequence[Sequence[Any]], places: Sequence[int]) -> Array:
    """Give one output for all rows, with a column for each of `places` if there are several."""
    found = [[row[place] for place in places] for row in rows]
    for number, row in enumerate(found):
        if None in row:
            raise InvalidTensor(f"the model has no result for the values of row {number}")
    return np.array(found)[:, 0] if len(places) == 1 else np.array(found)
