"""XGBoost's own files answer as XGBoost itself."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from ie_serving.config.files.option_files import batching_of
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.drivers import every
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.layers.batching import BatchingEngine
from ie_serving.engines.tabular.xgboost import load
from tests.unit.engines.asking import answer, told
from tests.unit.engines.layers.models import Record

xgboost = pytest.importorskip("xgboost")
X, LABELS = load_iris(return_X_y=True)
TWO = (LABELS > 0).astype(int)
FEW = {"n_estimators": 3, "max_depth": 2}


def saved(directory: Path, model: Any, name: str = "m.json") -> Path:
    model.save_model(directory / name)
    return directory / name


def booster(**params: Any) -> Any:
    labels = TWO if str(params.get("objective")).startswith("binary") else LABELS
    return xgboost.train(params, xgboost.DMatrix(X, labels), num_boost_round=3)


@pytest.mark.parametrize("name", ["m.json", "m.ubj", "m.bst"])
@pytest.mark.parametrize("labels", [TWO, LABELS], ids=["two", "three"])
async def test_a_classifier_gives_labels_and_probabilities(
    tmp_path: Path, labels: Any, name: str
) -> None:
    fitted = xgboost.XGBClassifier(**FEW).fit(X, labels)
    model = load(saved(tmp_path, fitted, name), EngineOptions())
    classes = len(set(labels))
    scores = f"float [-1, {classes}]"
    assert told(model) == {"x": "float [-1, 4]", "label": "int64 [-1]", "probabilities": scores}
    answered = await answer(model, x=X)
    assert answered["label"].tolist() == fitted.predict(X).tolist()
    assert np.allclose(answered["probabilities"], fitted.predict_proba(X), atol=1e-5)
    assert model.signatures["classify"].examples.labels == tuple(map(str, range(classes)))  # type: ignore[union-attr]
    model.close()


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob", "binary:logistic"])
async def test_the_librarys_own_answers(tmp_path: Path, objective: str) -> None:
    classes = {} if objective.startswith("binary") else {"num_class": 3}
    fitted = booster(objective=objective, **classes)
    found = EngineOptions(params={"answers": "library"})
    model = load(saved(tmp_path, fitted), found)
    expected = fitted.predict(xgboost.DMatrix(X))
    answered = (await answer(model, x=X))["y"]
    assert answered.shape == expected.shape and np.allclose(answered, expected, atol=1e-6)
    model.close()
    with pytest.raises(LoadFailed, match=r"params\.answers: 'mine' given; expected \"library\""):
        load(tmp_path / "m.json", EngineOptions(params={"answers": "mine"}))


def test_the_old_binary_format_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "m.bst").write_bytes(b"\0\0\0\x3f\4" + bytes(60))
    with pytest.raises(LoadFailed, match=r"m\.bst is of XGBoost's old binary format"):
        load(tmp_path / "m.bst", EngineOptions())


@pytest.mark.parametrize(
    ("make", "output"),
    [
        pytest.param(booster, "float [-1]", id="squares"),
        pytest.param(lambda: booster(objective="count:poisson"), "float [-1]", id="counts"),
        pytest.param(lambda: booster(booster="gblinear"), "float [-1]", id="linear"),
        pytest.param(lambda: booster(booster="dart"), "float [-1]", id="dart"),
        pytest.param(lambda: booster(objective="binary:logitraw"), "float [-1]", id="raw"),
    ],
)
async def test_a_regression_gives_values(
    tmp_path: Path, make: Callable[[], Any], output: str
) -> None:
    made = make()
    model = load(saved(tmp_path, made), EngineOptions())
    assert told(model)["y"] == output
    expected = made.predict(xgboost.DMatrix(X))
    assert np.allclose((await answer(model, x=X))["y"], expected, atol=1e-5)
    model.close()


async def test_classes_are_given_where_the_model_gives_no_probabilities(tmp_path: Path) -> None:
    """multi:softmax itself gives labels; its probabilities are those of multi:softprob."""
    made = booster(objective="multi:softmax", num_class=3)
    model = load(saved(tmp_path, made), EngineOptions())
    answered = await answer(model, x=X)
    assert answered["label"].tolist() == made.predict(xgboost.DMatrix(X)).tolist()
    assert np.allclose(answered["probabilities"].sum(axis=1), 1, atol=1e-5)
    model.close()


async def test_early_stopping_is_kept_as_the_library_keeps_it(tmp_path: Path) -> None:
    fitted = xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=2, max_depth=1)
    fitted.fit(X[::2], LABELS[::2], eval_set=[(X[1::2], (LABELS[1::2] + 1) % 3)], verbose=False)
    assert fitted.best_iteration < fitted.get_booster().num_boosted_rounds() - 1
    model = load(saved(tmp_path, fitted), EngineOptions())
    answered = await answer(model, x=X)
    assert np.allclose(answered["probabilities"], fitted.predict_proba(X), atol=1e-5)
    model.close()


@pytest.mark.parametrize("name", ["m.ubj", "m.bst"])
def test_a_file_that_was_cut_is_refused_before_the_library_reads_it(
    tmp_path: Path, name: str
) -> None:
    file = saved(tmp_path, booster(), name)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(LoadFailed, match=f"^{name} is damaged or was cut"):
        load(file, EngineOptions())


async def test_requests_are_gathered_and_answered_apart(tmp_path: Path) -> None:
    fitted = xgboost.XGBClassifier(**FEW).fit(X, LABELS)
    saved(tmp_path, fitted)
    engine = BatchingEngine(every([]), Record(), batching_of)
    options = EngineOptions().having(Batching(max_batch_size=8))
    model = await asyncio.to_thread(engine.compile, tmp_path, options)
    assert "in batches of up to 8 rows" in model.signatures["serving_default"].runs_on
    answers = await asyncio.gather(*(answer(model, x=X[i : i + 1]) for i in range(0, 150, 10)))
    labels = [int(each["label"][0]) for each in answers]
    assert labels == fitted.predict(X[::10]).tolist()
    model.close()
