"""Estimators answer as scikit-learn itself, from every kind of file."""

import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Method
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.tabular.sklearn import bound_jobs, load
from tests.unit.engines.asking import answer, strings, told

if find_spec("skops") is None:
    pytest.skip("skops is not installed", allow_module_level=True)
X, LABELS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]
ALLOWED = EngineOptions(allow_pickle=True)


def saved(directory: Path, estimator: Any, name: str = "m.joblib") -> Path:
    file = directory / name
    if file.suffix == ".skops":
        from skops import io as skops_io  # takes seconds, which each collection would wait for

        skops_io.dump(estimator, file)
    elif file.suffix == ".joblib":
        joblib.dump(estimator, file)
    else:
        file.write_bytes(pickle.dumps(estimator))
    return file


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(5, random_state=0, n_jobs=-1),
    "scaled": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "boosted": lambda: HistGradientBoostingClassifier(max_iter=5),
}


@pytest.mark.parametrize("file", ["m.skops", "m.joblib", "m.pkl"])
@pytest.mark.parametrize("labels", [LABELS, NAMES], ids=["int", "text"])
@pytest.mark.parametrize("make", CLASSIFIERS.values(), ids=CLASSIFIERS)
async def test_a_classifier_gives_labels_and_probabilities(
    tmp_path: Path, make: Callable[[], Any], labels: Any, file: str
) -> None:
    fitted = make().fit(X, labels)
    model = load(saved(tmp_path, fitted, file), ALLOWED)
    word = "int64" if labels is LABELS else "string"
    label, probabilities = f"{word} [-1]", "double [-1, 3]"
    assert told(model) == {"x": "double [-1, 4]", "label": label, "probabilities": probabilities}
    answered = await answer(model, x=X.astype(np.float32))
    expected = fitted.predict(X)
    texts = [str(each) for each in expected]
    given = answered["label"].tolist()
    assert [each.decode() if word == "string" else str(each) for each in given] == texts
    assert np.allclose(answered["probabilities"], fitted.predict_proba(X), atol=1e-5)
    model.close()


@pytest.mark.parametrize(
    ("fitted", "output"),
    [
        pytest.param(LinearRegression().fit(X, LABELS), "double [-1]", id="one value"),
        pytest.param(LinearRegression().fit(X, X[:, :2]), "double [-1, 2]", id="two values"),
        pytest.param(RandomForestRegressor(3).fit(X, LABELS), "double [-1]", id="trees"),
        pytest.param(KMeans(3, n_init=1).fit(X), "int32 [-1]", id="clusters"),
    ],
)
async def test_a_regression_gives_values(tmp_path: Path, fitted: Any, output: str) -> None:
    model = load(saved(tmp_path, fitted), ALLOWED)
    assert told(model)["y"] == output
    assert np.allclose((await answer(model, x=X))["y"], fitted.predict(X), atol=1e-5)
    model.close()


async def test_a_classifier_without_probabilities_gives_labels(tmp_path: Path) -> None:
    fitted = LinearSVC().fit(X, LABELS)
    model = load(saved(tmp_path, fitted), ALLOWED)
    assert [*model.signatures["serving_default"].outputs] == ["label"]
    assert (await answer(model, x=X))["label"].tolist() == fitted.predict(X).tolist()
    model.close()


async def test_texts_are_classified(tmp_path: Path) -> None:
    texts = ["good wine", "bad beer", "good beer", "bad wine"]
    fitted = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000)).fit(
        texts, [1, 0, 1, 0]
    )
    file = saved(tmp_path, fitted)
    with pytest.raises(LoadFailed, match=r"how many features it takes: name its inputs by params"):
        load(file, ALLOWED)
    inputs = {"inputs": {"text": {"dtype": "string", "shape": [-1]}}}
    model = load(file, EngineOptions(allow_pickle=True, params=inputs))
    answered = await answer(model, text=strings(*texts))
    assert answered["label"].tolist() == [1, 0, 1, 0]
    with pytest.raises(InvalidTensor, match='"text" holds bytes that are not UTF-8'):
        await answer(model, text=np.array([b"\xff"], np.object_))
    model.close()


def test_estimators_have_signatures_for_classify_and_regress(tmp_path: Path) -> None:
    classifier = load(saved(tmp_path, LogisticRegression(max_iter=1000).fit(X, NAMES)), ALLOWED)
    binding = classifier.signatures["classify"].examples
    assert classifier.signatures["classify"].method == Method.CLASSIFY.value
    assert binding is not None
    assert binding.labels == ("setosa", "versicolor", "virginica")
    regressor = load(saved(tmp_path, LinearRegression().fit(X, LABELS)), ALLOWED)
    assert regressor.signatures["regress"].method == Method.REGRESS.value
    clusters = load(saved(tmp_path, KMeans(3, n_init=1).fit(X)), ALLOWED)
    assert [*clusters.signatures] == ["serving_default"]


@pytest.mark.parametrize(
    ("rows", "kind", "text"),
    [
        pytest.param(X * np.nan, InvalidRequest, r"contains NaN.*expects \"x\" double", id="NaN"),
        pytest.param(strings("a"), InvalidTensor, "to be double but string", id="texts"),
    ],
)
async def test_wrong_values_are_refused_and_right_ones_answered_after_them(
    tmp_path: Path, rows: Any, kind: type[Exception], text: str
) -> None:
    model = load(saved(tmp_path, LogisticRegression(max_iter=1000).fit(X, LABELS)), ALLOWED)
    for _ in range(2):
        with pytest.raises(kind, match=text):
            await answer(model, x=rows)
    assert len((await answer(model, x=X))["label"]) == len(X)
    model.close()


@pytest.mark.parametrize("file", ["m.joblib", "m.pkl", "m.pickle"])
def test_a_pickle_is_not_read_unless_that_is_allowed(tmp_path: Path, file: str) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (tmp_path.joinpath("ran").mkdir, ())

    path = tmp_path / file
    path.write_bytes(pickle.dumps(LinearRegression()))
    text = rf"^{file} is a pickle: .*skops\.io\.dump.*engine\.allow_pickle"
    with pytest.raises(LoadFailed, match=text):
        load(path, EngineOptions())


def test_a_skops_file_of_unknown_types_needs_the_same(tmp_path: Path) -> None:
    file = saved(tmp_path, {"estimator": LinearRegression(), "of": InvalidRequest}, "m.skops")
    with pytest.raises(LoadFailed, match=r"InvalidRequest; to trust .*engine\.allow_pickle"):
        load(file, EngineOptions())


SEARCHED = {"C": [0.1, 1.0]}


@pytest.mark.parametrize(
    "fitted",
    [
        pytest.param(make_pipeline(SimpleImputer(), LinearSVC()), id="imputer"),
        pytest.param(GridSearchCV(LogisticRegression(max_iter=1000), SEARCHED), id="search"),
        pytest.param(
            RandomizedSearchCV(
                LogisticRegression(max_iter=1000), SEARCHED, n_iter=2, scoring="f1_macro"
            ),
            id="search by a score",
        ),
    ],
)
async def test_a_skops_file_of_scikit_learns_own_types(tmp_path: Path, fitted: Any) -> None:
    model = load(saved(tmp_path, fitted.fit(X, LABELS), "m.skops"), EngineOptions())
    assert (await answer(model, x=X))["label"].tolist() == fitted.predict(X).tolist()
    model.close()


def own_score(estimator: Any, rows: Any, labels: Any) -> float:
    return float(estimator.score(rows, labels))


def test_a_search_with_code_of_its_own_is_told_what_to_dump(tmp_path: Path) -> None:
    fitted = GridSearchCV(LogisticRegression(max_iter=1000), SEARCHED, scoring=own_score).fit(
        X, LABELS
    )
    file = saved(tmp_path, fitted, "m.skops")
    advice = r"own_score; dump the best_estimator_ of the GridSearchCV, .*; to trust"
    with pytest.raises(LoadFailed, match=advice):
        load(file, EngineOptions())


@pytest.mark.parametrize(
    ("held", "text"),
    [
        pytest.param(
            StandardScaler().fit(X), "holds a StandardScaler, which has no predict", id="step"
        ),
        pytest.param({"a": 1}, "holds a dict|dict does not say", id="no estimator"),
        pytest.param(LinearRegression(), "LinearRegression does not say how many", id="not fitted"),
    ],
)
def test_objects_that_are_no_models_are_refused(tmp_path: Path, held: Any, text: str) -> None:
    with pytest.raises(LoadFailed, match=text):
        load(saved(tmp_path, held), ALLOWED)


def test_a_skops_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    file = saved(tmp_path, LinearRegression().fit(X, LABELS), "m.skops")
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(LoadFailed) as failure:
        load(file, EngineOptions())
    text = "it is no archive of skops, or is cut short: upload it again"
    assert str(failure.value) == f"m.skops cannot be read by scikit-learn: {text}"


def test_the_version_of_the_library_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = LinearRegression().fit(X, LABELS)
    file = tmp_path / "m.pkl"
    file.write_bytes(pickle.dumps(fitted).replace(b"_sklearn_version", b"_sklearn_version"))
    state = fitted.__getstate__() | {"_sklearn_version": "1.0"}
    file.write_bytes(pickle.dumps(_Stated(state)))
    load(file, ALLOWED).close()
    assert issubclass(InconsistentVersionWarning, UserWarning)
    assert "model of another version of its library" in caplog.text
    assert "1.0" in caplog.text


class _Stated:
    """Pickles as a linear regression of any state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def __reduce__(self) -> tuple[Any, ...]:
        return LinearRegression, (), self._state


def test_estimators_use_no_more_threads_than_the_server_may() -> None:
    voting = VotingClassifier([("a", RandomForestClassifier(2)), ("b", LinearSVC())])
    fitted = make_pipeline(StandardScaler(), voting).fit(X, LABELS)
    # After the training, which would start as many processes.
    fitted[-1].n_jobs, fitted[-1].estimators_[0].n_jobs = 64, -1
    bound_jobs(fitted, 2)
    assert [fitted[-1].n_jobs, fitted[-1].estimators_[0].n_jobs] == [2, 2]
    few = RandomForestClassifier(n_jobs=1)
    bound_jobs(few, 2)
    assert (few.n_jobs, LogisticRegression().n_jobs) == (1, None)
