"""What the drivers of models of rows have in common."""

import asyncio
import pickle
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression

from ie_serving.app.engine_stack import engine_of
from ie_serving.commands.check import check
from ie_serving.config.dialects.ie_serving import parse
from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.drivers import every
from ie_serving.storage.backends.local import SingleFile
from tests.tables import named_by
from tests.unit.engines.asking import answer

X, Y = load_iris(return_X_y=True)
WAIT_S = 20.0
Predict = Callable[[Any], Any]
Write = Callable[[Path], Predict]
"""Trains a model on `X`, writes its file, and gives the library's own answers to rows."""


def sklearn(directory: Path) -> Predict:
    skops_io = pytest.importorskip("skops.io")
    fitted = LinearRegression().fit(X, Y)
    skops_io.dump(fitted, directory / "m.skops")
    return fitted.predict


def xgboost(directory: Path) -> Predict:
    library = pytest.importorskip("xgboost")
    fitted = library.XGBRegressor(n_estimators=3).fit(X, Y)
    fitted.save_model(directory / "m.ubj")
    return fitted.predict


def lightgbm(directory: Path) -> Predict:
    library = pytest.importorskip("lightgbm")
    fitted = library.train({"verbose": -1}, library.Dataset(X, Y), num_boost_round=3)
    fitted.save_model(directory / "m.txt")
    return fitted.predict


def catboost(directory: Path) -> Predict:
    library = pytest.importorskip(
        "catboost", reason="catboost is not installed; see `make drivers`"
    )
    fitted = library.CatBoostRegressor(iterations=3, verbose=0, allow_writing_files=False)
    fitted.fit(X, Y).save_model(str(directory / "m.cbm"))
    return fitted.predict


@pytest.mark.parametrize("write", [sklearn, xgboost, lightgbm, catboost])
async def test_every_request_gets_its_own_answer(tmp_path: Path, write: Write) -> None:
    """Several threads ask the library's one object at once, with other numbers of rows."""
    expected = write(tmp_path)(X)
    model = every([]).compile(tmp_path, EngineOptions(nireq=4))
    parts = [slice(i % 140, i % 140 + 1 + i % 7) for i in range(200)]
    calls = [answer(model, x=X[part]) for part in parts]
    answers = await asyncio.wait_for(asyncio.gather(*calls), WAIT_S)
    for part, answered in zip(parts, answers, strict=True):
        assert np.allclose(answered["y"], expected[part], atol=1e-5)
    model.close()


async def test_requests_that_leave_cost_the_others_nothing(tmp_path: Path) -> None:
    expected = sklearn(tmp_path)(X)
    model = every([]).compile(tmp_path, EngineOptions(nireq=2))
    tasks = [asyncio.ensure_future(answer(model, x=X)) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)
    for each in done[1::2]:
        assert isinstance(each, dict)
        assert np.allclose(each["y"], expected)
    model.close()


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        pytest.param(X[:, :3], r"Obtained shape .*3\].*{} \(-1, 4\)", id="features"),
        pytest.param(X[:0], r'input "x" {} \(-1, 4\) has no rows', id="none"),
    ],
)
@named_by(
    "write",
    ("write", "dtype"),
    [(sklearn, "double"), (xgboost, "float"), (lightgbm, "double"), (catboost, "float")],
)
async def test_wrong_rows_are_refused_and_right_ones_answered_after_them(
    tmp_path: Path, write: Write, dtype: str, rows: Any, text: str
) -> None:
    write(tmp_path)
    model = every([]).compile(tmp_path, EngineOptions())
    for _ in range(2):
        with pytest.raises(InvalidTensor, match=text.format(dtype)):
            await answer(model, x=rows)
    assert len((await answer(model, x=X))["y"]) == len(X)
    model.close()


@pytest.mark.parametrize("write", [xgboost, lightgbm, catboost])
async def test_a_value_that_is_not_there_is_nan(tmp_path: Path, write: Write) -> None:
    predict = write(tmp_path)
    model = every([]).compile(tmp_path, EngineOptions())
    rows = np.full((2, 4), np.nan)
    assert np.allclose((await answer(model, x=rows))["y"], predict(rows))
    model.close()


@pytest.mark.parametrize(
    ("library", "name", "content", "text"),
    [
        pytest.param(
            "sklearn", "m.joblib", b"no model\n", "cannot be read by scikit-learn: ", id="joblib"
        ),
        pytest.param(
            "sklearn", "m.pkl", b"no model\n", "cannot be read by scikit-learn: ", id="pickle"
        ),
        pytest.param(
            "sklearn", "m.skops", b"no model\n", "cannot be read by scikit-learn: ", id="skops"
        ),
        pytest.param(
            "xgboost",
            "m.json",
            b'{"learner": {}}\n',
            "cannot be read by xgboost: ",
            id="JSON of xgboost",
        ),
        pytest.param(
            "xgboost", "m.ubj", b'{"learner": {}}\n', "is damaged", id="UBJSON of xgboost"
        ),
        pytest.param(
            "lightgbm", "m.txt", b"tree\nversion=v4\n", "was cut", id="a tree that was cut"
        ),
        pytest.param(
            "lightgbm",
            "m.txt",
            b"words\nend of trees",
            "cannot be read by lightgbm: ",
            id="words for a tree",
        ),
        pytest.param("lightgbm", "m.txt", b"", "was cut", id="nothing for a tree"),
        pytest.param(
            "catboost", "m.cbm", b"no model\n", "cannot be read by catboost: ", id="catboost"
        ),
    ],
)
def test_a_broken_file_fails_in_one_line(
    tmp_path: Path, library: str, name: str, content: bytes, text: str
) -> None:
    needed = "skops" if name.endswith(".skops") else library
    pytest.importorskip(needed, reason=f"{needed} is not installed; see `make drivers`")
    driver = import_module(f"ie_serving.engines.tabular.{library}")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LoadFailed, match=f"^{name} {text}") as failure:
        driver.load(tmp_path / name, EngineOptions(allow_pickle=True))
    assert "\n" not in str(failure.value)


def test_check_tells_by_what_a_file_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.pkl"
    file.write_bytes(pickle.dumps(LinearRegression().fit(X, Y)))
    argv = ["check", f"--model_path={file}", "--allow_pickle"]
    assert check(parse(argv, {}).settings, engine_of, SingleFile) == 0
    assert capsys.readouterr().out.splitlines() == [
        "model m.pkl, version 1",
        '  regress: served by scikit-learn, from "serving_default"',
        "  serving_default: served by scikit-learn",
    ]
    assert check(parse(argv[:2], {}).settings, engine_of, SingleFile) == 1
    assert "engine.allow_pickle" in capsys.readouterr().out
