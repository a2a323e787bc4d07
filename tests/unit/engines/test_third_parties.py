"""Drivers of other packages, as they are installed: found by their entry points."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines import drivers
from ie_serving.engines.base import EngineOptions

MODULE = """
from tests.stand_in_engine import StandInEngine

class Mine(StandInEngine):
    name = "mine"

class Broken:
    def __init__(self):
        raise OSError("libbroken.so is missing")
"""
ENTRIES = """
[ie_serving.drivers]
mine = mine_package:Mine
broken = mine_package:Broken
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "mine_package.py").write_text(MODULE)
    about = tmp_path / "mine_package-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-package\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    drivers.third_parties.cache_clear()
    yield
    drivers.third_parties.cache_clear()
    sys.modules.pop("mine_package", None)


def test_a_driver_is_found_and_imported_when_it_is_asked(installed: None, tmp_path: Path) -> None:
    mine = drivers.third_parties()["mine"]
    assert "mine_package" not in sys.modules
    assert mine.missing(["notes"]) == "engine.json is missing"
    (tmp_path / "engine.json").write_text("{}")
    assert mine.claims(tmp_path)
    assert mine.compile(tmp_path, EngineOptions()).signatures


def test_a_driver_that_cannot_be_imported_fails_its_versions_alone(
    installed: None, tmp_path: Path
) -> None:
    broken = drivers.third_parties()["broken"]
    assert "libbroken.so is missing" in (broken.missing([]) or "")
    assert not broken.claims(tmp_path)
    for _ in range(2):
        with pytest.raises(
            LoadFailed, match=r"'broken' \(mine_package:Broken\) cannot be imported"
        ):
            broken.compile(tmp_path, EngineOptions())
