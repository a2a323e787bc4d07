"""The first example of docs/guide/libraries.md runs as printed, and what it says of skops holds."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.drivers import every
from tests.unit.engines.asking import answer

pytestmark = pytest.mark.skipif(find_spec("skops") is None, reason="skops is not installed")

PAGE = Path(__file__).parents[4] / "docs" / "guide" / "libraries.md"


async def test_the_first_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def named(begin: str, end: str) -> list[str]:
    """Give what the page writes as code between two of its words."""
    found = re.search(f"{begin}(.*?){end}", PAGE.read_text(), re.DOTALL)
    assert found
    return re.findall(r"`(\w+)`", found[1])


NEEDING = named("Those types are in", "they need")
FREE = named("or ONNX. Linear models,", " do not")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "needs"), [*((name, True) for name in NEEDING), *((name, False) for name in FREE)]
)
def test_the_page_knows_what_skops_does_not_trust(name: str, needs: bool) -> None:
    import skops.io  # takes seconds, of which the collection of tests has none
    from sklearn.utils import all_estimators

    estimators = dict(all_estimators())
    estimator = estimators.get(f"{name}Classifier") or estimators[name]
    fitted = estimator().fit([[float(row)] for row in range(40)], [0, 1] * 20)
    data = skops.io.dumps(fitted)
    assert bool(skops.io.get_untrusted_types(data=data)) is needs
