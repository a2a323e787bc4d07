"""What a document says of its fields is held against every request; no Java is needed."""

from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.pmml.driver import InputField, fields_of
from tests.tables import named_by
from tests.unit.engines.pmml.documents import document, field, listed, schema


def read(inside: str = "", dtype: str = "double", how: str = "") -> InputField:
    """Read a document whose one field is like this."""
    used = f'<MiningField name="x" {how}/>'
    model = f'<RegressionModel functionName="regression">{schema("y", used)}</RegressionModel>'
    return fields_of(document(field("x", dtype, inside) + field("y"), model))["x"]


@named_by(
    "dtype",
    ("dtype", "meant"),
    [
        ("double", DataType.FP64),
        ("float", DataType.FP32),
        ("integer", DataType.INT64),
        ("string", DataType.STRING),
        ("boolean", DataType.BOOL),
    ],
)
def test_a_type_of_pmml_has_its_dtype(dtype: str, meant: DataType) -> None:
    assert read(dtype=dtype).dtype is meant


def test_a_type_that_no_request_brings() -> None:
    with pytest.raises(LoadFailed, match='field "x" has the type date; requests can bring double'):
        read(dtype="date")


def test_a_document_without_a_model_is_refused() -> None:
    with pytest.raises(LoadFailed, match="holds no model"):
        fields_of(document(field("x"), ""))


HALF = '<Interval closure="openClosed" leftMargin="0" rightMargin="1"/>'
ABOVE = '<Interval closure="closedOpen" leftMargin="10"/>'


@pytest.mark.parametrize(
    ("found", "values", "text"),
    [
        (read(), [1.0, np.inf], 'input "x" holds inf in row 1: the model takes finite numbers'),
        (read(), [np.nan], "holds nan in row 0: the model takes a number in each row"),
        (read(HALF), [1.0, 0.0], r"holds 0.0 in row 1: the model takes a number in \(0, 1\]"),
        (read(HALF), [1.5], "holds 1.5 in row 0"),
        (read(HALF + ABOVE), [0.5, 9.0], r"takes a number in \(0, 1\] or \[10, inf\)"),
        (
            read(listed("a", "b"), "string"),
            ["a", "c"],
            "holds c in row 1: the model takes one of a, b",
        ),
        (read(listed(1, 2), "integer"), [1, 3], "holds 3 in row 1: the model takes one of 1, 2"),
        (read(listed("true"), "boolean"), [True, False], "holds False in row 1"),
        (read(HALF, "integer"), [0], "holds 0 in row 0"),
    ],
    ids=range(9),
)
def test_a_value_that_its_field_forbids_is_refused(
    found: InputField, values: Any, text: str
) -> None:
    with pytest.raises(InvalidTensor, match=text):
        found.check(np.array(values))


@pytest.mark.parametrize(
    ("found", "values"),
    [
        (read(HALF), [1.0, 0.1]),
        (read(HALF + ABOVE), [0.5, 10.0, 1e9]),
        (read(listed("a", "b"), "string"), ["b", "a"]),
        (read(listed("1.0", "2.50"), "double"), [2.5, 1.0]),
        (read(listed("true"), "boolean"), [True]),
        (read(listed("a"), "string", 'invalidValueTreatment="asIs"'), ["c"]),
        (read(HALF, how='invalidValueTreatment="asMissing"'), [7.0]),
        (read(HALF, how='missingValueReplacement="0.5"'), [np.nan]),
    ],
    ids=range(8),
)
def test_a_value_that_its_field_allows_is_taken(found: InputField, values: Any) -> None:
    found.check(np.array(values))


def test_a_model_that_knows_what_to_do_without_a_number_takes_rows_without_it() -> None:
    model = (
        '<TreeModel functionName="regression" missingValueStrategy="defaultChild">'
        f"{schema('y', 'x')}</TreeModel>"
    )
    fields_of(document(field("x") + field("y"), model))["x"].check(np.array([np.nan]))
