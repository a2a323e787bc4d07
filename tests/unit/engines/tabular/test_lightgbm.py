"""LightGBM's own files answer as LightGBM itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.tabular.lightgbm import load
from tests.unit.engines.asking import answer, told

lightgbm = pytest.importorskip("lightgbm")
X, LABELS = load_iris(return_X_y=True)
TWO = (LABELS > 0).astype(int)


def fitted(objective: str, labels: Any = LABELS, **params: Any) -> Any:
    data = lightgbm.Dataset(X, labels)
    wanted = {"objective": objective, "verbose": -1, "min_data_in_leaf": 5, **params}
    return lightgbm.train(wanted, data, num_boost_round=3)


def saved(directory: Path, booster: Any) -> Path:
    booster.save_model(directory / "m.txt")
    return directory / "m.txt"


@pytest.mark.parametrize(
    ("booster", "classes"),
    [
        pytest.param(fitted("binary", TWO), 2, id="two"),
        pytest.param(fitted("multiclass", num_class=3), 3, id="three"),
        pytest.param(fitted("multiclassova", num_class=3), 3, id="one against all"),
    ],
)
async def test_a_classifier_gives_labels_and_probabilities(
    tmp_path: Path, booster: Any, classes: int
) -> None:
    model = load(saved(tmp_path, booster), EngineOptions())
    scores = f"double [-1, {classes}]"
    assert told(model) == {"x": "double [-1, 4]", "label": "int64 [-1]", "probabilities": scores}
    answered = await answer(model, x=X)
    expected = booster.predict(X)
    both = expected if expected.ndim == 2 else np.stack([1 - expected, expected], axis=1)
    assert np.allclose(answered["probabilities"], both, atol=1e-5)
    assert answered["label"].tolist() == both.argmax(axis=1).tolist()
    assert "classify" in model.signatures
    model.close()


@pytest.mark.parametrize("objective", ["regression", "poisson", "quantile", "cross_entropy"])
async def test_a_regression_gives_values(tmp_path: Path, objective: str) -> None:
    booster = fitted(objective, TWO)
    model = load(saved(tmp_path, booster), EngineOptions())
    assert told(model)["y"] == "double [-1]"
    assert np.allclose((await answer(model, x=X))["y"], booster.predict(X), atol=1e-5)
    model.close()
