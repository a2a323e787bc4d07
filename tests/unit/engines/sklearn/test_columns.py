"""Estimators that choose columns by name, from one input for each."""

from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.sklearn.driver import load
from tests.unit.engines.asking import answer, strings

pandas = pytest.importorskip("pandas", reason="pandas is not installed; see `make drivers`")

COLUMNS = {"dtype": "float64", "shape": [-1]}
INPUTS = {"age": COLUMNS, "city": {"dtype": "string", "shape": [-1]}}


async def test_columns(tmp_path: Path) -> None:
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
