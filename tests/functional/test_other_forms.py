"""What lies in place of a model: `check`, log, status and readiness name it, and what to do."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.functional.conftest import Serve
from tests.functional.servers import PLAIN, SAMPLE
from tests.process import COMMANDS, PATIENCE_S, Process, free_ports, until

VERSION = SAMPLE / "2"
NOBODY = 65534
"""User id without rights to files of others."""

Place = Callable[[Path], str]
"""Fills a base path; gives the text that explains it."""


def keras(base: Path) -> str:
    (base / "1").mkdir()
    (base / "1" / "model.keras").touch()
    return (
        "version 1: not served: found model.keras, a file of Keras: export it in Python:"
        f" keras.models.load_model('{base}/1/model.keras').export('{base}/1')"
    )


def h5(base: Path) -> str:
    (base / "weights.h5").touch()
    return (
        "found weights.h5, a file of Keras: export it in Python:"
        f" keras.models.load_model('{base}/weights.h5').export('{base}/1')"
    )


def archive(base: Path) -> str:
    (base / "m.zip").touch()
    unpack = f"mkdir -p {base}/1 && unzip {base}/m.zip -d {base}/1"
    return f"found m.zip, an archive: unpack it: {unpack}"


def versions_too_deep(base: Path) -> str:
    shutil.copytree(VERSION, base / "export" / "1")
    return f"found versions in export/, one folder too deep: use the base path {base}/export"


def model_too_deep(base: Path) -> str:
    shutil.copytree(VERSION, base / "1" / "export")
    return f"found a model in export/, one folder too deep: mv {base}/1/export/* {base}/1/"


def folder_with_a_name(base: Path) -> str:
    shutil.copytree(VERSION, base / "resnet")
    return f"found a model in resnet/, whose name is not a number: mv {base}/resnet {base}/1"


def empty(base: Path) -> str:
    return (
        f"{base} has no directory that is named by a number, such as 1: it is empty:"
        f" copy the files of the model into {base}/1"
    )


def empty_version(base: Path) -> str:
    (base / "1").mkdir()
    return "the directory is empty, the model is missing: expected *.xml with *.bin"


def notes(base: Path) -> str:
    (base / "README.txt").touch()
    return f"such as 1: found README.txt: copy the files of the model into {base}/1"


@pytest.mark.parametrize(
    "fill",
    [
        keras,
        h5,
        archive,
        versions_too_deep,
        model_too_deep,
        folder_with_a_name,
        empty,
        empty_version,
        notes,
    ],
)
def test_a_check_names_the_form_and_the_step(tmp_path: Path, fill: Place) -> None:
    base = tmp_path / "m"
    base.mkdir()
    explained = fill(base)
    code, shown = checked(base)
    assert code == 1
    assert explained in shown


def checked(base: str | Path, command: str = "ie_serving", *before: str) -> tuple[int, str]:
    flags = ("check", "--model_name=m", f"--model_path={base}")
    if command == "tensorflow_model_server":
        flags = ("--dry_run", "--model_name=m", f"--model_base_path={base}")
    with Process(*before, COMMANDS / command, *flags) as process:
        return process.exit_code(), process.log


def test_a_mistyped_url_is_named() -> None:
    code, shown = checked("s3//bucket/models/m")
    assert code == 1
    assert "such as s3://bucket/models/m if the store was meant" in shown


def test_a_file_of_keras_as_the_base_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.keras").touch()
    _, shown = checked(tmp_path / "m.keras")
    assert f".export('{tmp_path}/m/1'), and use the base path {tmp_path}/m" in shown


def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root to become another user")
    for each in (tmp_path, *tmp_path.parents[:3]):
        if not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o011)
    shutil.copytree(VERSION, tmp_path / "m" / "1")
    file = tmp_path / "m" / "1" / "model.xml"
    file.chmod(0)
    setpriv = ("/usr/bin/env", "setpriv", f"--reuid={NOBODY}", "--clear-groups")
    runs = subprocess.run([*setpriv, COMMANDS / "python", "-c", ""], check=False)
    if runs.returncode:
        pytest.skip("another user may not run this Python")
    _, shown = checked(tmp_path / "m", "ie_serving", *setpriv)
    assert f"not served: {file}: permission denied for user id {NOBODY}: " in shown


def test_one_models_files_without_a_version_are_version_1(serve: Serve, tmp_path: Path) -> None:
    base = Path(shutil.copytree(VERSION, tmp_path / "m"))
    server = serve("ie_serving", "model", "--model_name=m", f"--model_path={base}")
    assert "the base path itself holds a model, which is served as version 1" in server.log
    versions = server.rest.get("/v1/models/m").json()["model_version_status"]
    assert [(each["version"], each["state"]) for each in versions] == [("1", "AVAILABLE")]
    shutil.copytree(VERSION, base / "2")
    until(lambda: states(server.rest) == {"2": "AVAILABLE", "1": "END"})


def states(rest: httpx.Client) -> dict[str, str]:
    versions = rest.get("/v1/models/m").json()["model_version_status"]
    return {each["version"]: each["state"] for each in versions}


def test_tensorflow_servings_command_waits_for_a_version_as_it_does(tmp_path: Path) -> None:
    base = shutil.copytree(VERSION, tmp_path / "m")
    code, shown = checked(base, "tensorflow_model_server")
    assert code == 1
    assert "found a model, but not in a directory named by a number: " in shown
    assert f"mv model.bin model.xml {base}/1" in shown


def test_readiness_and_the_log_name_the_model_that_is_waited_for(tmp_path: Path) -> None:
    base = tmp_path / "m"
    base.mkdir()
    port, rest_port = free_ports(2)
    ports = (f"--port={port}", f"--rest_port={rest_port}")
    with Process("ie_serving", "model", "--model_name=m", f"--model_path={base}", *ports) as server:
        server.line("WARNING - model has no version model=m .* copy the files of the model into")
        server.line("gRPC server listens on port")
        url = f"http://127.0.0.1:{rest_port}"
        reply = httpx.get(
            f"{url}/v2/health/ready", trust_env=False, verify=PLAIN, timeout=PATIENCE_S
        )
        assert reply.status_code == 503
        assert reply.json() == {"ready": False, "waits_for": ["m"], "models": 1}
        answer = httpx.get(f"{url}/v1/models/m", trust_env=False, verify=PLAIN, timeout=PATIENCE_S)
        assert "copy the files of the model into" in answer.headers["ie-serving-error"]
        server.line("WARNING - not ready waits_for=m models=1 cause=.*named by a number")
        shutil.copytree(VERSION, base / "1")
        until(
            lambda: (
                httpx.get(f"{url}/v2/health/ready", trust_env=False, verify=PLAIN).status_code
                == 200
            )
        )
