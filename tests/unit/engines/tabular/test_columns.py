"""Estimators that choose columns, from one input for each."""

import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.tabular.sklearn import load
from tests.unit.engines.asking import answer, strings

ROWS = np.array([[20.0, "a"], [30.0, "b"], [40.0, "a"], [50.0, "b"]], np.object_)
ALLOWED = EngineOptions(allow_pickle=True)
COLUMNS = {"dtype": "float64", "shape": [-1]}
INPUTS = {"age": COLUMNS, "city": {"dtype": "string", "shape": [-1]}}


def fitted_on_rows() -> Any:
    """Fit a pipeline on an array of objects, with the step of the texts two levels down."""
    texts = make_pipeline(OneHotEncoder())
    steps = make_column_transformer((StandardScaler(), [0]), (texts, [1]))
    return make_pipeline(steps, LogisticRegression()).fit(ROWS, [0, 1, 0, 1])


@pytest.mark.parametrize(
    "fitted",
    [
        pytest.param(fitted_on_rows(), id="number and text"),
        pytest.param(
            make_pipeline(OneHotEncoder(), LogisticRegression()).fit(ROWS[:, 1:], [0, 1, 0, 1]),
            id="text",
        ),
    ],
)
def test_texts_are_no_matrix_of_numbers(tmp_path: Path, fitted: Any) -> None:
    """Without `params` no request could succeed, so that the version must not be served."""
    joblib.dump(fitted, tmp_path / "m.joblib")
    expected = r"Pipeline takes no matrix of numbers: .*isnan.*name each of its .* by params.*city"
    with pytest.raises(LoadFailed, match=expected):
        load(tmp_path / "m.joblib", ALLOWED)


async def test_categories_that_are_numbers_are_a_matrix(tmp_path: Path) -> None:
    """Zeros are no known category, which says nothing about other rows."""
    numbers = np.array([[1.0], [2.0], [1.0], [2.0]])
    fitted = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(numbers, [0, 1, 0, 1])
    joblib.dump(fitted, tmp_path / "m.joblib")
    model = load(tmp_path / "m.joblib", ALLOWED)
    assert (await answer(model, x=numbers))["label"].tolist() == [0, 1, 0, 1]
    model.close()


def test_columns_without_pandas_fail_at_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joblib.dump(fitted_on_rows(), tmp_path / "m.joblib")
    monkeypatch.setitem(sys.modules, "pandas", None)
    options = EngineOptions(allow_pickle=True, params={"inputs": INPUTS})
    with pytest.raises(LoadFailed, match=r"read by pandas, not installed: pip install '\.\[pandas"):
        load(tmp_path / "m.joblib", options)


async def test_one_column_is_one_input(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; see `make drivers`")
    table = pandas.DataFrame({"city": ["a", "b", "a", "b"]})
    steps = make_column_transformer((OneHotEncoder(), ["city"]))
    fitted = make_pipeline(steps, LogisticRegression()).fit(table, [0, 1, 0, 1])
    joblib.dump(fitted, tmp_path / "m.joblib")
    with pytest.raises(LoadFailed, match=r"takes no matrix of numbers: .*1 columns \(city\)"):
        load(tmp_path / "m.joblib", ALLOWED)
    options = EngineOptions(allow_pickle=True, params={"inputs": {"city": INPUTS["city"]}})
    model = load(tmp_path / "m.joblib", options)
    assert (await answer(model, city=strings("b", "a")))["label"].tolist() == [1, 0]
    model.close()


async def test_columns_are_inputs_of_their_own(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; see `make drivers`")
    table = pandas.DataFrame({"age": [20.0, 30, 40, 50], "city": ["a", "b", "a", "b"]})
    steps = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["city"]))
    fitted = make_pipeline(steps, LogisticRegression()).fit(table, [0, 1, 0, 1])
    joblib.dump(fitted, tmp_path / "m.joblib")
    options = EngineOptions(allow_pickle=True, params={"inputs": INPUTS})
    model = load(tmp_path / "m.joblib", options)
    answered = await answer(model, age=[25.0, 45.0], city=strings("a", "b"))
    rows = pandas.DataFrame({"age": [25.0, 45.0], "city": ["a", "b"]})
    assert np.allclose(answered["probabilities"], fitted.predict_proba(rows), atol=1e-5)
    assert model.signatures["classify"].examples is not None
    with pytest.raises(InvalidRequest, match=r"scikit-learn refuses the inputs: .*unknown categor"):
        await answer(model, age=[25.0], city=strings("elsewhere"))
    with pytest.raises(InvalidTensor, match="different numbers of rows"):
        await answer(model, age=[25.0], city=strings("a", "b"))
    model.close()
