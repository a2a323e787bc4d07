"""CatBoost's own files answer as CatBoost itself. It is too large to be installed for every run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.tabular.catboost import load
from tests.unit.engines.asking import answer, strings, told

catboost = pytest.importorskip("catboost", reason="catboost is not installed; see `make drivers`")

X, LABELS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]
FEW = {"iterations": 3, "verbose": 0, "allow_writing_files": False}


def saved(directory: Path, model: Any) -> Path:
    model.save_model(str(directory / "m.cbm"))
    return directory / "m.cbm"


@pytest.mark.parametrize("labels", [LABELS, NAMES, LABELS > 0], ids=["int", "text", "two"])
async def test_a_classifier_gives_labels_and_probabilities(tmp_path: Path, labels: Any) -> None:
    fitted = catboost.CatBoostClassifier(**FEW).fit(X, labels)
    model = load(saved(tmp_path, fitted), EngineOptions())
    classes = len(set(labels))
    shown = told(model)
    assert (shown["x"], shown["probabilities"]) == ("float [-1, 4]", f"double [-1, {classes}]")
    answered = await answer(model, x=X)
    given = [each.decode() if isinstance(each, bytes) else each for each in answered["label"]]
    assert list(map(str, given)) == list(map(str, fitted.predict(X).reshape(-1)))
    assert np.allclose(answered["probabilities"], fitted.predict_proba(X), atol=1e-5)
    assert "classify" in model.signatures
    model.close()


@pytest.mark.parametrize("loss", ["RMSE", "Poisson", "Quantile", "MultiRMSE"])
async def test_a_regression_gives_values(tmp_path: Path, loss: str) -> None:
    target = X[:, :2] if loss == "MultiRMSE" else LABELS
    fitted = catboost.CatBoostRegressor(loss_function=loss, **FEW).fit(X, target)
    model = load(saved(tmp_path, fitted), EngineOptions())
    assert told(model)["y"] == ("double [-1, 2]" if loss == "MultiRMSE" else "double [-1]")
    assert np.allclose((await answer(model, x=X))["y"], fitted.predict(X), atol=1e-5)
    model.close()


async def test_categories_are_strings_and_every_feature_an_input(tmp_path: Path) -> None:
    rows = [[1.5, "x"], [2.0, "y"], [0.5, "x"], [3.0, "z"]] * 5
    fitted = catboost.CatBoostClassifier(cat_features=[1], **FEW).fit(rows, [0, 1, 0, 1] * 5)
    model = load(saved(tmp_path, fitted), EngineOptions())
    assert told(model) | {"0": "float [-1]", "1": "string [-1]"} == told(model)
    answered = await answer(model, **{"0": [1.5, 9.0], "1": strings("x", "new")})
    expected = fitted.predict_proba([[1.5, "x"], [9.0, "new"]])
    assert np.allclose(answered["probabilities"], expected, atol=1e-5)
    with pytest.raises(InvalidTensor, match="different numbers of rows"):
        await answer(model, **{"0": [1.5, 9.0], "1": strings("x")})
    model.close()
