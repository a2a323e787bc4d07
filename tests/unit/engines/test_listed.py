"""Which driver of the table a version is for, by its files alone."""

import sys
from pathlib import Path

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import Driver, EngineOptions
from ie_serving.engines.drivers import DriverRow, Drivers, every, names, rows
from ie_serving.engines.onnxruntime.driver import OnnxRuntimeEngine
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.storage.forms import SUFFIXES

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
def test_the_driver_of_files(tmp_path: Path, files: dict[str, bytes], driver: str) -> None:
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
def test_files_of_no_driver(tmp_path: Path, files: dict[str, bytes]) -> None:
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


@pytest.mark.parametrize(
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


def test_what_could_be_there_is_told_where_nothing_is() -> None:
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
