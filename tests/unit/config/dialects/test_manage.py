"""Configuration management, as OpenVINO Model Server documents it."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ie_serving.app import command_line as main
from ie_serving.config.dialects import manage
from ie_serving.config.files import file_edits
from ie_serving.core.values.errors import ConfigError


def entries(file: Path) -> dict[str, str]:
    listed = json.loads(file.read_text())["model_config_list"]
    return {each["config"]["name"]: each["config"]["base_path"] for each in listed}


def fault(*argv: str) -> str:
    with pytest.raises(ConfigError) as caught:
        manage.run(argv, {})
    return str(caught.value)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The repository of the documentation, and what is no model."""
    for place in ("meta/llama4/1", "LLama3.2/1", "resnet/1", "resnet/1/assets/2"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "saved_model.pb").touch()
    (tmp_path / "empty" / "1").mkdir(parents=True)
    (tmp_path / "notes" / "draft").mkdir(parents=True)
    return tmp_path


def test_models_of_a_repository_are_listed(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["--list_models", f"--model_repository_path={models}"]) == 0
    assert capsys.readouterr().out.splitlines() == ["LLama3.2", "meta/llama4", "resnet"]
    listed = manage.run(["--list_models"], {manage.REPOSITORY_VARIABLE: str(models)})
    assert listed == ["LLama3.2", "meta/llama4", "resnet"]


def test_a_repository_whose_links_go_in_a_circle_is_listed(models: Path) -> None:
    (models / "notes" / "again").symlink_to(models)
    listed = manage.run(["--list_models", f"--model_repository_path={models}"], {})
    assert "resnet" in listed


def test_a_model_is_added_to_a_file_that_is_made_and_taken_out_again(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    path = (f"--config_path={file}", "--model_name=resnet")
    manage.run(["--add_to_config", *path, "--model_path=s3://models/resnet"], {})
    assert entries(file) == {"resnet": "s3://models/resnet"}
    manage.run(["--remove_from_config", *path], {})
    assert entries(file) == {}


@pytest.mark.parametrize("place", ["", "config.json"], ids=["directory", "file"])
def test_the_path_may_follow_the_flag_and_the_model_lie_in_the_repository(
    models: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models)
    asked = ["--add_to_config", str(models / place), "--model_repository_path", "."]
    manage.run([*asked, "--model_name", "meta/llama4"], {})
    assert entries(models / "config.json") == {"meta/llama4": "meta/llama4"}


def test_the_file_lies_in_the_repository_of_the_environment(models: Path) -> None:
    environ = {manage.REPOSITORY_VARIABLE: str(models)}
    manage.run(["--add_to_config", "--model_name=resnet"], environ)
    assert entries(models / "config.json") == {"resnet": str(models / "resnet")}


def test_other_parts_of_the_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    one = {"config": {"name": "one", "base_path": "/1", "nireq": 4, "subconfig": "x"}}
    file.write_text(json.dumps({"model_config_list": [one], "monitoring": {}, "other": "é"}))
    file.chmod(0o640)
    manage.run(["--add_to_config", str(file), "--model_name=two", "--model_path=/2"], {})
    written = json.loads(file.read_text())
    assert written["model_config_list"][0] == one
    assert (written["monitoring"], written["other"]) == ({}, "é")
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_a_file_behind_a_link_is_replaced_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link, file = tmp_path / "links" / "c.json", tmp_path / "real.json"
    file.write_text('{"model_config_list": []}')
    link.symlink_to(file)
    manage.run(["--add_to_config", str(link), "--model_name=m", "--model_path=/m"], {})
    assert link.is_symlink()
    assert entries(file) == {"m": "/m"}


def test_an_edit_that_fails_leaves_the_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"model_config_list": []}')

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    told = fault("--add_to_config", str(file), "--model_name=m", "--model_path=/m")
    assert told == f"{file}: cannot be written: No space left on device"
    assert entries(file) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_edits_at_once_all_count(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    names = [f"m{number}" for number in range(16)]

    def add(name: str) -> None:
        manage.run(["--add_to_config", str(file), f"--model_name={name}", "--model_path=/m"], {})

    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(add, names))
    assert sorted(entries(file)) == sorted(names)


def test_an_edit_does_not_wait_for_another_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_edits, "PATIENCE_S", 0.0)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        text = fault("--add_to_config", str(tmp_path), "--model_name=m", "--model_path=/m")
    finally:
        os.close(directory)
    assert text.endswith("cannot be locked: another edit has kept it for 0 s; try again")
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_utf8_whatever_the_locale(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"model_config_list": [], "other": "é"}', encoding="utf-8")
    command = "from ie_serving.app.command_line import main; raise SystemExit(main())"
    argv = ("--add_to_config", str(file), "--model_name=m", "--model_path=/m")
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", command, *argv], env=environ, check=True, timeout=60)
    assert json.loads(file.read_text(encoding="utf-8"))["other"] == "é"


def test_a_fault_is_told_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    asked = (f"--config_path={file}", "--model_name=m", "--model_path=/m")
    assert fault("--remove_from_config", *asked[:2]).startswith(f"{file}: cannot be read")
    manage.run(["--add_to_config", *asked], {})
    before = file.read_text()
    assert 'has a model "m" already' in fault("--add_to_config", *asked)
    assert 'has no model "x"; its models: m' in fault(
        "--remove_from_config", f"--config_path={file}", "--model_name=x"
    )
    assert fault("--add_to_config", "--model_name=m") == "--config_path: missing; give it a value"
    found = fault("--add_to_config", asked[0], "--model_name=n")
    assert found == "--model_path: missing; give it a value"
    assert fault("--list_models", f"--model_repository_path={file}").endswith("above the models")
    assert file.read_text() == before
    file.write_text("// mine\n" + before)
    assert "has comments, which would be lost" in fault("--remove_from_config", *asked[:2])
    file.write_text("{")
    assert "not JSON" in fault("--remove_from_config", *asked[:2])


def test_faults_end_the_command_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--list_models"]) == 2
    assert (
        capsys.readouterr().err
        == "ie_serving: error: --model_repository_path: missing; give it a value\n"
    )
    with pytest.raises(SystemExit) as ended:
        main.main(["--list_models", "--port=9000"])
    assert ended.value.code == 2
