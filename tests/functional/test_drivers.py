"""Models of other libraries, as clients see them: each answers as its own library."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import classification_pb2

from tests.functional.asking import over_grpc
from tests.functional.servers import SAMPLE_FLAGS, Server, config_flag
from tests.process import PATIENCE_S

# Imported and fitted when a test runs: they take seconds, which each collection would wait for.
pytestmark = [
    pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed")
    for name in ("lightgbm", "sklearn", "skops", "xgboost")
]

ROWS = np.float32(
    [
        [5.1, 3.5, 1.4, 0.2],
        [5.7, 4.4, 1.5, 0.4],
        [4.8, 3.1, 1.6, 0.2],
        [4.8, 3.0, 1.4, 0.3],
        [5.0, 2.0, 3.5, 1.0],
        [6.6, 3.0, 4.4, 1.4],
        [5.5, 2.6, 4.4, 1.2],
        [7.6, 3.0, 6.6, 2.1],
        [6.9, 3.2, 5.7, 2.3],
        [7.7, 3.0, 6.1, 2.3],
    ]
)
"""Each fifteenth flower of the data set `iris`."""

ABSENT = "raise ModuleNotFoundError(\"No module named 'catboost'\", name='catboost')\n"
TELL = """
import os, pathlib, sys
end = os._exit
def tell(code):
    pathlib.Path(os.environ["TOLD"], str(os.getpid())).write_text(" ".join(sys.modules))
    end(code)
os._exit = tell
"""
"""Has a worker tell what it has imported when it ends, which it does by `os._exit`."""
OPTIONAL = (
    "sklearn",
    "skops",
    "joblib",
    "scipy",
    "xgboost",
    "lightgbm",
    "catboost",
    "pandas",
    "pypmml",
)


class Fitted(NamedTuple):
    """Models by name, as their libraries have them."""

    iris: Any
    boosted: Any
    line: Any
    light: Any


@cache
def fitted() -> Fitted:
    import lightgbm
    import xgboost
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LinearRegression, LogisticRegression

    x, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    return Fitted(
        LogisticRegression(max_iter=1000).fit(x, names),
        xgboost.XGBClassifier(n_estimators=3).fit(x, labels),
        LinearRegression().fit(x, labels),
        lightgbm.train(
            {"objective": "regression", "verbose": -1},
            lightgbm.Dataset(x, labels),
            num_boost_round=3,
        ),
    )


def write(root: Path) -> str:
    """Write a repository for each model, and the configuration of all."""
    import joblib
    from skops import io as skops_io

    for name in ("iris", "boosted", "light", "pickled", "cat", "echo", "line"):
        (root / name / "1").mkdir(parents=True)
    skops_io.dump(fitted().iris, root / "iris/1/iris.skops")
    skops_io.dump(fitted().line, root / "line/1/line.skops")
    fitted().boosted.save_model(root / "boosted/1/model.json")
    fitted().light.save_model(root / "light/1/model.txt")
    joblib.dump(fitted().iris, root / "pickled/1/model.joblib")
    (root / "cat/1/model.cbm").write_bytes(b"CBM1")
    own: dict[str, dict[str, Any]] = {
        "echo": {"driver": "null", "params": {"inputs": {"a": {"dtype": "int32", "shape": [-1]}}}},
    }
    names = ("iris", "boosted", "light", "pickled", "cat", "echo", "line")
    models = ({"name": n, "base_path": n, **own.get(n, {})} for n in names)
    return config_flag(root / "config.json", *models)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drivers")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    """No pickles are allowed, and CatBoost is not installed."""
    (root / "absent/catboost").mkdir(parents=True)
    (root / "absent/catboost/__init__.py").write_text(ABSENT)
    env = {"PYTHONPATH": str(root / "absent")}
    with Server("ie_serving", "config", write(root), env=env) as server:
        yield server.ready(100)


def predict(server: Server, model: str, **inputs: Any) -> dict[str, Any]:
    return over_grpc(server, model, "", inputs)


def status(server: Server, model: str) -> Any:
    (found,) = server.status(model)
    return found


def by_library(model: str) -> dict[str, Any]:
    if model == "light":
        return {"y": fitted().light.predict(ROWS)}
    found = getattr(fitted(), model)
    if model == "line":
        return {"y": found.predict(ROWS)}
    return {"label": found.predict(ROWS), "probabilities": found.predict_proba(ROWS)}


@pytest.mark.parametrize("model", ["iris", "boosted", "light", "line"])
def test_answers_are_the_librarys_over_both_ports(server: Server, model: str) -> None:
    expected = by_library(model)
    over_grpc = predict(server, model, x=ROWS)
    reply = server.rest.post(f"/v1/models/{model}:predict", json={"inputs": ROWS.tolist()}).json()
    over_rest = reply["outputs"] if len(expected) > 1 else {"y": reply["outputs"]}
    for answered in (over_grpc, over_rest):
        assert answered.keys() == expected.keys()
        for name, wanted in expected.items():
            got = np.asarray(answered[name])
            if wanted.dtype.kind in "UO":
                texts = [each.decode() if isinstance(each, bytes) else each for each in got]
                assert texts == wanted.tolist()
            else:
                assert np.allclose(got, wanted, atol=1e-5)
    assert {name: array.dtype.kind for name, array in over_grpc.items()} == {
        name: "O" if array.dtype.kind == "U" else array.dtype.kind
        for name, array in expected.items()
    }


def test_metadata_describe_a_model_of_another_library(server: Server) -> None:
    reply = server.rest.get("/v1/models/iris/metadata").json()
    signatures = reply["metadata"]["signature_def"]["signatureDef"]
    assert signatures.keys() == {"serving_default", "classify"}
    default = signatures["serving_default"]
    dtypes = {name: spec["dtype"] for name, spec in default["outputs"].items()}
    assert dtypes == {"label": "DT_STRING", "probabilities": "DT_DOUBLE"}
    sizes = [dim["size"] for dim in default["inputs"]["x"]["tensorShape"]["dim"]]
    assert sizes == ["-1", "4"]
    assert signatures["classify"]["methodName"] == "tensorflow/serving/classify"


def test_classify_and_regress_answer_as_the_library(server: Server) -> None:
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "iris", "classify"
    example = request.input.example_list.examples.add()
    example.features.feature["x"].float_list.value.extend(ROWS[0].tolist())
    (found,) = server.prediction.Classify(request, PATIENCE_S).result.classifications
    wanted = dict(
        zip(fitted().iris.classes_, fitted().iris.predict_proba(ROWS[:1])[0], strict=True)
    )
    assert {each.label: each.score for each in found.classes} == pytest.approx(wanted, abs=1e-5)
    body = {"signature_name": "regress", "examples": [{"x": row} for row in ROWS.tolist()]}
    reply = server.rest.post("/v1/models/line:regress", json=body).json()
    assert reply["results"] == pytest.approx(fitted().line.predict(ROWS).tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        pytest.param(ROWS[:, :2], '"x" double (-1, 4)', id="features"),
        pytest.param(ROWS[:0], '"x" double (-1, 4) has no rows', id="none"),
        pytest.param(ROWS * np.nan, 'NaN.*; the model expects "x" double (-1, 4)', id="NaN"),
        pytest.param(["a"], "to be double but string is provided", id="texts"),
    ],
)
def test_wrong_inputs_are_the_requests_error(server: Server, rows: Any, text: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        predict(server, "iris", x=rows)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    first, _, last = text.partition(".*")
    assert first in caught.value.details()
    assert last in caught.value.details()


def test_the_null_driver_echoes(server: Server) -> None:
    assert predict(server, "echo", a=[1, 2])["a"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        pytest.param("pickled", "model.joblib is a pickle: .* set --allow_pickle", id="a pickle"),
        pytest.param("cat", r"not installed: pip install '.\[catboost\]'", id="an extra"),
    ],
)
def test_a_model_that_cannot_be_served_says_why(server: Server, model: str, text: str) -> None:
    found = status(server, model)
    assert found.State.Name(found.state) == "LOADING"
    assert re.search(text, found.status.error_message)
    assert re.search(text, server.log)


def test_modules_that_no_model_uses_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(TELL)
    told = tmp_path / "told"
    told.mkdir()
    env = {"PYTHONPATH": str(tmp_path), "TOLD": str(told)}
    flags = (*SAMPLE_FLAGS, "--allow_pickle", "--allow_python")
    server = Server("ie_serving", "model", *flags, env=env).ready()
    server.rest.get("/v1/models/digits")
    server.close()
    modules = {name for file in told.iterdir() for name in file.read_text().split()}
    assert "ie_serving.engines.openvino.compiling.openvino_engine" in modules
    ours = {name for name in modules if name.startswith("ie_serving.engines.")}
    places = {name.split(".")[2] for name in ours}
    assert not places & {"sklearn", "xgboost", "lightgbm", "catboost", "pmml", "null", "tabular"}
    assert not {f"ie_serving.engines.graph.{each}" for each in ("reading", "run")} & modules
    assert not {name.split(".")[0] for name in modules} & set(OPTIONAL)
