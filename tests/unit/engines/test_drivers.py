"""A version is compiled by the driver that is named, or else by the first that claims its files."""

from collections.abc import Collection
from pathlib import Path

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.drivers import DriverRow, Drivers
from tests.stand_in_engine import FILE, StandInEngine


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
    with pytest.raises(
        LoadFailed, match=r"no driver 'pmml'; expected one of auto, general, special"
    ):
        Drivers(drivers).compile(tmp_path, EngineOptions(driver="pmml"))


def test_a_directory_is_complete_when_it_is_for_one_driver(drivers: list[Claiming]) -> None:
    assert Drivers(drivers).missing(["special.json"]) is None
    assert Drivers(drivers).missing([FILE]) is None
    assert Drivers(drivers).missing([]) == f"general: {FILE} is missing"


ROW = DriverRow(name="own", place="tests.unit.engines.test_drivers:loaded", suffixes=(".own",))
LOADED: list[Path] = []


def loaded(file: Path, options: EngineOptions) -> object:
    LOADED.append(file)
    return options


@pytest.mark.parametrize(
    ("files", "named", "chosen"),
    [
        pytest.param(["m.own"], "auto", "row", id="by its file"),
        pytest.param(["m.own", FILE], "auto", "general", id="after those at hand"),
        pytest.param(["m.own", FILE], "own", "row", id="by its name"),
        pytest.param(["theirs.json"], "auto", "theirs", id="of another package"),
        pytest.param(
            ["m.own", "theirs.json"], "theirs", "theirs", id="of another package, by name"
        ),
    ],
)
def test_drivers_that_are_not_at_hand(
    tmp_path: Path, drivers: list[Claiming], files: list[str], named: str, chosen: str
) -> None:
    for file in files:
        (tmp_path / file).write_text("{}")
    (tmp_path / FILE).write_text("{}") if chosen == "theirs" else None
    theirs = Claiming("theirs", "theirs.json")
    LOADED.clear()
    every = Drivers(
        drivers[:1] if chosen == "theirs" else drivers, [ROW], lambda: {"theirs": theirs}
    )
    assert every.missing(files) is None
    assert every.named(named).missing(files) is None
    every.compile(tmp_path, EngineOptions(driver=named))
    compiled = {driver.name for driver in (*drivers, theirs) if driver.models}
    assert compiled | ({"row"} if LOADED else set()) == {chosen}


def test_a_named_driver_waits_for_its_own_files(drivers: list[Claiming]) -> None:
    every = Drivers(drivers, [ROW])
    assert every.named("own").missing([FILE]) == "the model is missing: expected *.own"
    assert every.named("special").missing([FILE]) == "special: special.json is missing"
    assert every.named("auto").missing([FILE]) is None


def test_other_packages_are_looked_at_only_where_nothing_else_fits(
    tmp_path: Path, drivers: list[Claiming]
) -> None:
    def looked() -> dict[str, Claiming]:
        raise AssertionError("looked at")

    every = Drivers(drivers, [ROW], looked)
    (tmp_path / FILE).write_text("{}")
    every.missing([FILE])
    every.compile(tmp_path, EngineOptions())
    every.named("special")
