"""What `check` prints, and its exit code, on the stand-in engine."""

import json
from pathlib import Path

import pytest

from ie_serving.check import check
from ie_serving.config.settings import ModelConfig, ServerSettings, Settings
from ie_serving.core.errors import NoneServed
from ie_serving.engines.testing import FILE, StandInEngine
from ie_serving.models.repository.version_policy import All
from ie_serving.storage.backends.local import LocalStorage


def write(base: Path, version: str, **description: object) -> Path:
    path = base / version / FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(description))
    return path.parent


def checked(*bases: Path) -> int:
    models = [ModelConfig(name=b.name, base_path=str(b), version_policy=All()) for b in bases]
    return check(
        Settings(server=ServerSettings(), models=tuple(models)),
        lambda model: StandInEngine(),
        LocalStorage,
    )


def test_every_version_and_signature_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", "1")
    entry = {"method": "regress", "features": {}, "outputs": {"outputs": "y"}}
    directory = write(tmp_path / "m", "2")
    (directory / "signatures.json").write_text(json.dumps({"signatures": {"r": entry}}))
    assert checked(tmp_path / "m") == 0
    assert capsys.readouterr().out.splitlines() == [
        "model m, version 1",
        "  serving_default: served by the stand-in",
        "model m, version 2",
        '  r: served by signatures.json, from "serving_default"',
        "  serving_default: served by the stand-in",
    ]


def test_what_does_not_load_is_told_with_its_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", "1")
    write(tmp_path / "m", "2", fail="no such operation")
    write(tmp_path / "n", "1").joinpath(FILE).rename(tmp_path / "n" / "1" / "notes.txt")
    (tmp_path / "o").mkdir()
    assert checked(tmp_path / "m", tmp_path / "n", tmp_path / "o", tmp_path / "p") == 1
    out = capsys.readouterr().out.splitlines()
    assert out[2] == "model m, version 2: not served: no such operation"
    assert out[3] == f"model n, version 1: not served: {FILE} is missing"
    assert out[4].startswith("model o: not served: no version under")
    assert "no such directory" in out[5]


def test_each_of_several_causes_has_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are joined into one line where a status or the log tells them."""
    write(tmp_path / "m", "1")
    write(tmp_path / "m", "2", fail="signatures.json: no method; no such input; no such output")
    engine = StandInEngine()
    causes = {"first": "it has no such operation; set --some_flag", "second": "not dense"}

    def none_served(directory: Path) -> None:
        if directory.name == "1":
            raise NoneServed("; ".join(causes.values()), causes)

    engine.before_compile = none_served
    model = ModelConfig(name="m", base_path=str(tmp_path / "m"), version_policy=All())
    assert (
        check(
            Settings(server=ServerSettings(), models=(model,)), lambda model: engine, LocalStorage
        )
        == 1
    )
    assert capsys.readouterr().out.splitlines() == [
        "model m, version 1",
        "  first: not served: it has no such operation",
        "    set --some_flag",
        "  second: not served: not dense",
        "model m, version 2: not served: signatures.json: no method",
        "    no such input",
        "    no such output",
    ]


def test_the_models_that_were_compiled_are_freed(tmp_path: Path) -> None:
    write(tmp_path / "m", "1")
    engine = StandInEngine()
    model = ModelConfig(name="m", base_path=str(tmp_path / "m"))
    assert (
        check(
            Settings(server=ServerSettings(), models=(model,)), lambda model: engine, LocalStorage
        )
        == 0
    )
    assert [each.closed for each in engine.models] == [True]
