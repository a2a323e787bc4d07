"""The first example of docs/guide/libraries.md runs as printed, and what it says of skops holds."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.drivers import every
from ie_serving.engines.tabular import sklearn
from tests.unit.engines.asking import answer

pytestmark = pytest.mark.skipif(find_spec("skops") is None, reason="skops is not installed")

PAGE = Path(__file__).parents[4] / "docs" / "guide" / "libraries.md"


async def test_the_first_example_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    exec(found[1], {})
    drivers = every([])
    version = tmp_path / "models" / "iris" / "1"
    assert drivers.missing([file.name for file in version.iterdir()]) is None
    model = drivers.compile(version, EngineOptions())
    answered = await answer(model, x=[[5.1, 3.5, 1.4, 0.2]])
    assert answered["label"].tolist() == [b"setosa"]
    assert {"serving_default", "classify"} == {*model.signatures}
    model.close()


KINDS = ("DecisionTree", "RandomForest", "GradientBoosting", "HistGradientBoosting", "AdaBoost")
KINDS += ("KNeighbors", "MLP", "GaussianProcess", "Logistic", "CalibratedClassifierCV", "SVC")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", KINDS)
def test_estimators_are_read_by_the_advised_way(name: str, tmp_path: Path) -> None:
    import skops.io  # takes seconds, of which the collection of tests has none
    from sklearn.utils import all_estimators

    estimators = dict(all_estimators())
    kind = next(
        estimators[each]
        for each in (name, f"{name}Classifier", f"{name}Regression")
        if each in estimators
    )
    rows = [[float(row), float(row % 7)] for row in range(40)]
    fitted = kind().fit(rows, [0, 1] * 20)
    skops.io.dump(fitted, tmp_path / "m.skops")
    read = sklearn.read(tmp_path / "m.skops", EngineOptions())
    assert read.predict(rows).tolist() == fitted.predict(rows).tolist()
