"""Documents of PMML answer as scikit-learn, and as the library. Java is not on every machine."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression

from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    InvalidTensor,
    LoadFailed,
)
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.pmml import java
from ie_serving.engines.pmml.driver import load
from tests.unit.engines.asking import answer, strings, told
from tests.unit.engines.pmml.documents import NAMES, SPECIES, classifier, regressor, tree

pypmml = pytest.importorskip("pypmml", reason="pypmml is not installed; see `make drivers`")
pytestmark = pytest.mark.skipif(not shutil.which("java"), reason=f"no Java: {java.INSTALL}")

X, LABELS = load_iris(return_X_y=True)
COLUMNS = dict(zip(NAMES, X.T, strict=True))
FITTED = LogisticRegression(max_iter=1000).fit(X, LABELS)


def written(directory: Path, content: str) -> Path:
    (directory / "m.pmml").write_text(content)
    return directory / "m.pmml"


def directly(content: str, columns: dict[str, Any]) -> Any:
    """Ask the library itself."""
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    asked = json.dumps({"columns": list(columns), "data": rows})
    return json.loads(pypmml.Model.fromString(content).predict(asked))["data"]


@pytest.mark.parametrize(
    ("classes", "dtype"), [(SPECIES, "string"), ((0, 1, 2), "integer")], ids=["text", "integer"]
)
async def test_a_classifier_gives_labels_and_probabilities(
    tmp_path: Path, classes: Any, dtype: str
) -> None:
    content = classifier(FITTED, classes, dtype)
    model = load(written(tmp_path, content), EngineOptions())
    label = "string" if dtype == "string" else "int64"
    shown = dict.fromkeys(NAMES, "double [-1]")
    assert told(model) == {**shown, "label": f"{label} [-1]", "probabilities": "double [-1, 3]"}
    answered = await answer(model, **COLUMNS)
    given = [each.decode() if isinstance(each, bytes) else each for each in answered["label"]]
    assert given == [classes[each] for each in FITTED.predict(X)]
    assert np.allclose(answered["probabilities"], FITTED.predict_proba(X), atol=1e-5)
    found = np.array([row[2:] for row in directly(content, COLUMNS)], float)
    assert np.allclose(answered["probabilities"], found, atol=1e-5)
    assert "classify" in model.signatures
    model.close()


async def test_the_librarys_own_answers(tmp_path: Path) -> None:
    """The fields of `<Output>`, and the predicted one by the document's name for it."""
    content = classifier(FITTED)
    chance = (
        '<Output><OutputField name="Probability_setosa" optype="continuous" dataType="double"'
        ' feature="probability" value="setosa"/></Output>'
    )
    found = EngineOptions(params={"answers": "library"})
    for more in ("", chance):
        model = load(
            written(tmp_path, content.replace("<RegressionTable", f"{more}<RegressionTable", 1)),
            found,
        )
        answered = await answer(model, **COLUMNS)
        assert list(answered) == (["Probability_setosa", "species"] if more else ["species"])
        given = [SPECIES.index(each.decode()) for each in answered["species"]]
        assert given == FITTED.predict(X).tolist()
        model.close()


async def test_a_regression_gives_values(tmp_path: Path) -> None:
    fitted = LinearRegression().fit(X[:, :3], X[:, 3])
    model = load(written(tmp_path, regressor(fitted)), EngineOptions())
    assert told(model)["y"] == "double [-1]"
    asked = {name: COLUMNS[name] for name in NAMES[:3]}
    assert np.allclose((await answer(model, **asked))["y"], fitted.predict(X[:, :3]), atol=1e-5)
    assert "regress" in model.signatures
    model.close()


async def test_fields_are_held_to_what_the_document_says(tmp_path: Path) -> None:
    """The library itself answers nothing for these, or a made-up number."""
    model = load(written(tmp_path, tree()), EngineOptions())
    assert told(model) | {"colour": "string [-1]", "age": "int64 [-1]"} == told(model)
    answered = await answer(model, colour=strings("red", "blue", "red"), age=[20, 20, 90])
    assert answered["label"].tolist() == [b"yes", b"no", b"no"]
    assert np.allclose(answered["probabilities"], [[0.25, 0.75], [0.9, 0.1], [0.9, 0.1]])
    for colour, age, text in (
        ("green", 20, "holds green in row 0: the model takes one of blue, red"),
        ("red", 121, r"holds 121 in row 0: the model takes a number in \[0, 120\]"),
    ):
        with pytest.raises(InvalidTensor, match=text):
            await answer(model, colour=strings(colour), age=[age])
    with pytest.raises(InvalidRequest, match="Missing but required"):
        await answer(model, colour=strings("red"))
    model.close()


async def test_a_java_that_dies_is_begun_anew_for_all_models(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = [load(written(tmp_path, tree()), EngineOptions()) for _ in range(2)]
    (process,) = (each for each in psutil.Process().children() if "java" in each.name())
    process.kill()
    process.wait()
    for model in models * 2:
        answered = await answer(model, colour=strings("red"), age=[20])
        assert answered["label"].tolist() == [b"yes"]
    assert caplog.text.count("java process ended, another one is begun") == 1
    for model in models:
        model.close()


async def test_a_java_that_hangs_is_ended_and_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped here, for a document that never comes to an end."""
    model = load(written(tmp_path, tree()), EngineOptions())
    (process,) = (each for each in psutil.Process().children() if "java" in each.name())
    with monkeypatch.context() as patched:
        patched.setattr(java, "LIMIT_S", 0.3)
        process.suspend()
        with pytest.raises(DeadlineExceeded, match=r"not computed within 0\.3 s"):
            await answer(model, colour=strings("red"), age=[20])
    assert (await answer(model, colour=strings("red"), age=[20]))["label"].tolist() == [b"yes"]
    model.close()


@pytest.mark.parametrize("content", ["<x/>", "no XML", "", "<PMML/>"])
def test_a_broken_file_fails_in_one_line(tmp_path: Path, content: str) -> None:
    with pytest.raises(LoadFailed) as failure:
        load(written(tmp_path, content), EngineOptions())
    assert "\n" not in str(failure.value)


def test_without_java_the_line_that_installs_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(LoadFailed, match="Java, not installed: apt-get install default-jre-hea"):
        load(written(tmp_path, tree()), EngineOptions())
