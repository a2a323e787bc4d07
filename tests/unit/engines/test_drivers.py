"""Which driver a version is for, from the table or of other packages."""

import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.engines import drivers
from ie_serving.engines.base import CompiledModel, Driver, EngineOptions
from ie_serving.engines.drivers import DriverRow, Drivers, every, names, rows
from ie_serving.engines.null import load
from ie_serving.engines.onnxruntime.driver import OnnxRuntimeEngine
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.storage.forms import SUFFIXES
from tests.stand_in_engine import FILE, StandInEngine
from tests.tables import named_by
from tests.unit.engines.asking import answer, strings, told
from tests.unit.engines.contract import EngineContract, copied

# A version is compiled by the driver that is named, or else by the first that claims its files.


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
def two_drivers() -> list[Claiming]:
    return [Claiming("special", "special.json"), Claiming("general", FILE)]


@pytest.mark.parametrize(
    ("files", "named", "chosen"),
    [
        pytest.param([FILE], "auto", "general", id="the general one alone"),
        pytest.param([FILE, "special.json"], "auto", "special", id="the special one by its file"),
        pytest.param([FILE, "special.json"], "general", "general", id="the general one by name"),
        pytest.param([FILE], "special", "special", id="the special one by name"),
    ],
)
def test_the_driver_that_is_named_or_special_compiles(
    tmp_path: Path, two_drivers: list[Claiming], files: list[str], named: str, chosen: str
) -> None:
    for file in files:
        (tmp_path / file).write_text("{}")
    Drivers(two_drivers).compile(tmp_path, EngineOptions(driver=named))
    assert [driver.name for driver in two_drivers if driver.models] == [chosen]


def test_an_unknown_driver_is_answered_with_those_there_are(
    tmp_path: Path, two_drivers: list[Claiming]
) -> None:
    with pytest.raises(
        LoadFailed, match=r"no driver 'pmml'; expected one of auto, general, special"
    ):
        Drivers(two_drivers).compile(tmp_path, EngineOptions(driver="pmml"))


def test_a_directory_is_complete_when_it_is_for_one_driver(two_drivers: list[Claiming]) -> None:
    assert Drivers(two_drivers).missing(["special.json"]) is None
    assert Drivers(two_drivers).missing([FILE]) is None
    assert Drivers(two_drivers).missing([]) == f"general: {FILE} is missing"


ROW = DriverRow(name="own", reference="tests.unit.engines.test_drivers:loaded", suffixes=(".own",))
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
def test_a_driver_of_the_table_or_of_another_package_compiles(
    tmp_path: Path, two_drivers: list[Claiming], files: list[str], named: str, chosen: str
) -> None:
    for file in files:
        (tmp_path / file).write_text("{}")
    (tmp_path / FILE).write_text("{}") if chosen == "theirs" else None
    theirs = Claiming("theirs", "theirs.json")
    LOADED.clear()
    every = Drivers(
        two_drivers[:1] if chosen == "theirs" else two_drivers, [ROW], lambda: {"theirs": theirs}
    )
    assert every.missing(files) is None
    assert every.named(named).missing(files) is None
    every.compile(tmp_path, EngineOptions(driver=named))
    compiled = {driver.name for driver in (*two_drivers, theirs) if driver.models}
    assert compiled | ({"row"} if LOADED else set()) == {chosen}


def test_a_named_driver_waits_for_its_own_files(two_drivers: list[Claiming]) -> None:
    every = Drivers(two_drivers, [ROW])
    assert every.named("own").missing([FILE]) == "the model is missing: expected *.own"
    assert every.named("special").missing([FILE]) == "special: special.json is missing"
    assert every.named("auto").missing([FILE]) is None


def test_other_packages_are_looked_at_only_where_nothing_else_fits(
    tmp_path: Path, two_drivers: list[Claiming]
) -> None:
    def looked() -> dict[str, Claiming]:
        raise AssertionError("looked at")

    every = Drivers(two_drivers, [ROW], looked)
    (tmp_path / FILE).write_text("{}")
    every.missing([FILE])
    every.compile(tmp_path, EngineOptions())
    every.named("special")


# Which driver of the table a version is for, by its files alone.

TABLE = rows()
ROWS = {row.name: row for row in TABLE}
XGBOOST = b'{"learner":{"attributes":{},"feature_names":[]'
LIGHTGBM = b"tree\nversion=v4\nnum_class=3\n"


def claiming(directory: Path) -> list[str]:
    return [row.name for row in TABLE if row.claims(directory)]


@pytest.mark.parametrize(
    ("files", "driver"),
    [
        pytest.param({"m.skops": b""}, "sklearn", id="skops"),
        pytest.param({"m.joblib": b""}, "sklearn", id="joblib"),
        pytest.param({"m.pkl": b"", "labels.txt": b"a\nb"}, "sklearn", id="a pickle with labels"),
        pytest.param({"m.ubj": b""}, "xgboost", id="universal binary JSON"),
        pytest.param({"m.json": XGBOOST}, "xgboost", id="JSON of XGBoost"),
        pytest.param({"m.json": XGBOOST, "signatures.json": b"{}"}, "xgboost", id="two JSON files"),
        pytest.param({"m.txt": LIGHTGBM, "labels.txt": b"a"}, "lightgbm", id="text of LightGBM"),
        pytest.param({"m.cbm": b""}, "catboost", id="CatBoost"),
    ],
)
def test_a_driver_is_found_by_its_files(
    tmp_path: Path, files: dict[str, bytes], driver: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert claiming(tmp_path) == [driver]
    assert ROWS[driver].recognizes(list(files))
    assert ROWS[driver].missing(list(files)) is None
    assert Drivers([], TABLE).named(driver).missing(list(files)) is None


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"m.txt": b"words"}, id="any text"),
        pytest.param({"m.json": b'{"format": "graph-model"}'}, id="any JSON"),
        pytest.param({"labels.txt": LIGHTGBM}, id="labels"),
        pytest.param({"m.bin": b"", "m.txt": LIGHTGBM}, id="text beside what is of another model"),
        pytest.param({"m.txt": LIGHTGBM, "n.txt": LIGHTGBM}, id="two texts"),
        pytest.param({"assets/m.pkl": b""}, id="an asset"),
    ],
)
def test_files_of_no_driver_are_claimed_by_none(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert claiming(tmp_path) == []


def test_a_named_driver_says_what_it_waits_for() -> None:
    assert ROWS["lightgbm"].missing(["m.bin"]) == "the model is missing: expected *.txt"
    assert ROWS["lightgbm"].missing(["m.bin", "m.txt"]) is None
    assert ROWS["null"].missing([]) is None


def test_several_models_are_refused(tmp_path: Path) -> None:
    for name in ("a.cbm", "b.cbm"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(LoadFailed, match=r"several models: a\.cbm, b\.cbm; keep one"):
        ROWS["catboost"].compile(tmp_path, EngineOptions())


def test_a_named_driver_without_its_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"no model of driver catboost: expected \*\.cbm"):
        ROWS["catboost"].compile(tmp_path, EngineOptions())


@named_by(
    "library",
    ("file", "library", "extra"),
    [
        ("m.skops", "skops", "sklearn"),
        ("m.ubj", "xgboost", "xgboost"),
        ("m.txt", "lightgbm", "lightgbm"),
        ("m.cbm", "catboost", "catboost"),
    ],
)
def test_without_its_library_a_driver_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, library: str, extra: str
) -> None:
    (tmp_path / file).write_bytes(LIGHTGBM)
    monkeypatch.setitem(sys.modules, library, None)  # as Python marks what is not there
    with pytest.raises(LoadFailed, match=rf"{library}.*pip install '.\[{extra}\]'"):
        ROWS[extra].compile(tmp_path, EngineOptions())


# The words of a kernel are its author's.
@pytest.mark.parametrize("row", [r for r in TABLE if r.name != "python"], ids=lambda row: row.name)
def test_words_that_a_driver_does_not_know_are_refused(tmp_path: Path, row: DriverRow) -> None:
    (tmp_path / f"m{[*row.suffixes, *row.begins, ''][0]}").write_bytes(LIGHTGBM)
    with pytest.raises(LoadFailed, match=f'params: driver {row.name} has no "inptus"'):
        row.compile(tmp_path, EngineOptions(params={"inptus": {}}))


def test_every_driver_has_its_name() -> None:
    assert names() == [
        "auto",
        *sorted(
            ("openvino", "onnxruntime", *(name for name, row in ROWS.items() if not row.marks))
        ),
    ]


@pytest.mark.parametrize(
    "engine", [OpenVinoEngine(), OnnxRuntimeEngine()], ids=["openvino", "onnxruntime"]
)
def test_drivers_at_hand_know_no_params(tmp_path: Path, engine: Driver) -> None:
    with pytest.raises(LoadFailed, match=f'driver {engine.name} has no "x"; it knows none'):
        engine.compile(tmp_path, EngineOptions(params={"x": 1}))


def test_the_files_that_drivers_expect_are_told_where_none_is() -> None:
    every_driver = every([OpenVinoEngine()])
    told = every_driver.missing(["notes.md"]) or ""
    assert told.startswith("the model is missing: expected *.xml with *.bin")
    others = [row.forms for row in TABLE if row.forms and row.forms != "*.tflite"]
    assert told.endswith(f"; or for other drivers {', '.join(others)}")
    assert told.count("*.tflite") == 1
    assert every_driver.missing(["m.xml"]) == "m.bin is missing beside m.xml"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_file_of_a_driver_can_be_a_base_path(row: DriverRow) -> None:
    assert SUFFIXES.issuperset((*row.suffixes, *row.begins))


# Drivers of other packages, as they are installed: found by their entry points.

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


# The driver that computes nothing.


async def test_it_echoes_numbers_of_any_shape(tmp_path: Path) -> None:
    model = load(tmp_path, EngineOptions())
    for sent in (np.ones((2, 3), np.float32), np.float32(7), np.zeros((0, 4), np.float32)):
        assert (await answer(model, x=sent))["x"].tolist() == sent.tolist()
    model.close()


async def test_it_gives_what_it_is_told_to(tmp_path: Path) -> None:
    params = {
        "inputs": {"a": {"dtype": "string", "shape": [-1]}},
        "outputs": {
            "a": {"dtype": "string", "shape": [-1]},
            "n": {"dtype": "int64", "shape": [-1, 2]},
            "s": {"dtype": "string", "shape": [1]},
        },
    }
    model = load(tmp_path, EngineOptions(params=params))
    assert told(model) == {"a": "string [-1]", "n": "int64 [-1, 2]", "s": "string [1]"}
    answered = await answer(model, a=strings("x", "y", "z"))
    assert answered["a"].tolist() == [b"x", b"y", b"z"]
    assert (answered["n"].dtype, answered["n"].tolist()) == (np.int64, [[0, 0]] * 3)
    assert answered["s"].tolist() == [b""]
    model.close()


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        pytest.param({"inputs": {}}, r"params\.inputs: expected an object", id="no inputs"),
        pytest.param(
            {"inputs": {"x": "float"}},
            r"params\.inputs\.x: expected an object",
            id="a text for an input",
        ),
        pytest.param(
            {"inputs": {"x": {"dtype": "flaot"}}},
            r"params\.inputs\.x\.dtype: 'flaot' given",
            id="another dtype",
        ),
        pytest.param(
            {"inputs": {"x": {"shape": [-2]}}},
            r"params\.inputs\.x\.shape: \[-2\] given",
            id="a negative size",
        ),
        pytest.param(
            {"inputs": {"x": {"shape": "any"}}},
            r"params\.inputs\.x\.shape: 'any' given",
            id="a text for a shape",
        ),
        pytest.param(
            {"inputs": {"x": {"dtype": "float"}}, "outputs": {"x": {"dtype": "int32"}}},
            r"params\.outputs\.x: expected what the input has",
            id="an output of another type",
        ),
    ],
)
def test_a_fault_of_params_is_told_with_its_key(
    tmp_path: Path, params: dict[str, object], fault: str
) -> None:
    with pytest.raises(LoadFailed, match=fault):
        load(tmp_path, EngineOptions(params=params))


def test_an_option_that_only_openvino_carries_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"^shape: driver null"):
        load(tmp_path, EngineOptions().having(OpenVinoOptions(shape=(4, 2))))


# The stand-in engine keeps the contract and can be held and failed at will.


def write(directory: Path, **description: object) -> Path:
    (directory / "engine.json").write_text(json.dumps(description))
    return directory


class TestStandInEngine(EngineContract):
    engine = StandInEngine
    write_add_one = staticmethod(lambda directory: write(directory, shape=[-1, 2]))
    spoil = staticmethod(lambda directory: (directory / "engine.json").write_text("{"))


def test_the_file_can_ask_for_a_failed_load(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="out of luck"):
        StandInEngine().compile(write(tmp_path, fail="out of luck"), EngineOptions())


def test_a_model_is_closed_once(tmp_path: Path) -> None:
    model = StandInEngine().compile(write(tmp_path), EngineOptions())
    model.close()
    with pytest.raises(RuntimeError, match="twice"):
        model.close()


async def test_the_operation_and_its_value_come_from_the_file(tmp_path: Path) -> None:
    model = StandInEngine().compile(
        write(tmp_path, op="multiply", value=3, dtype="INT64"), EngineOptions()
    )
    inputs = {"x": np.array([2], np.int64)}
    assert await model.infer(model.signatures[SERVING_DEFAULT], inputs, copied) == {"y": [6]}
