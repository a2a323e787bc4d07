"""A version is compiled by the driver that is named, or else by the first that claims its files."""

from collections.abc import Collection
from pathlib import Path

import pytest

from ie_serving.core.errors import LoadFailed
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.drivers import Drivers
from ie_serving.engines.testing import FILE, StandInEngine


class Claiming(StandInEngine):
    """Claims directories that hold a file."""

    def __init__(self, name: str, file: str) -> None:
        super().__init__()
        self.name = name
        self._file = file

    def missing(self, files: Collection[str]) -> str | None:
        return None if self._file in files else f"{self.name}: {self._file} is missing"

    def claims(self, directory: Path) -> bool:
        return (directory / self._file).is_file()

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        return super().compile(directory, options)


@pytest.fixture
def drivers() -> list[Claiming]:
    return [Claiming("special", "special.json"), Claiming("general", FILE)]


@pytest.mark.parametrize(
    ("files", "named", "chosen"),
    [
        ([FILE], "auto", "general"),
        ([FILE, "special.json"], "auto", "special"),
        ([FILE, "special.json"], "general", "general"),
        ([FILE], "special", "special"),
    ],
)
def test_the_driver_that_compiles(
    tmp_path: Path, drivers: list[Claiming], files: list[str], named: str, chosen: str
) -> None:
    for file in files:
        (tmp_path / file).write_text("{}")
    Drivers(drivers).compile(tmp_path, EngineOptions(driver=named))
    assert [driver.name for driver in drivers if driver.models] == [chosen]


def test_an_unknown_driver_is_answered_with_those_there_are(
    tmp_path: Path, drivers: list[Claiming]
) -> None:
    with pytest.raises(LoadFailed, match=r"'pmml'.*expected one of auto, general, special"):
        Drivers(drivers).compile(tmp_path, EngineOptions(driver="pmml"))


def test_a_directory_is_complete_when_it_is_for_one_driver(drivers: list[Claiming]) -> None:
    assert Drivers(drivers).missing(["special.json"]) is None
    assert Drivers(drivers).missing([FILE]) is None
    assert Drivers(drivers).missing([]) == f"general: {FILE} is missing"
