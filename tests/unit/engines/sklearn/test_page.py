"""The first example of docs/own-code.md runs as printed."""

import re
from pathlib import Path

import pytest

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.drivers import every
from tests.unit.engines.asking import answer

pytest.importorskip("skops.io")
PAGE = Path(__file__).parents[4] / "docs" / "own-code.md"


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
