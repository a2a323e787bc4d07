"""The commands of the README and of `make run`, as they are printed, in an empty folder.

Changed are only ports, which come from the system, and what the README leaves to its reader: files
of a model, and rows.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.functional.servers import READY, ROOT, SAMPLE
from tests.process import COMMANDS, Process, free_ports, output_of, until

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("make")), reason="the README uses curl and make"
)

BLOCKS = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
_PICTURE, MAKE_RUN, TRY_IT, START, ASK = BLOCKS
ENVIRONMENT = {"PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}", "no_proxy": "localhost"}
ROW = json.loads((ROOT / "examples/digits/request.json").read_text())["instances"][0]["image"]


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    port, rest_port = free_ports(2)
    return port, rest_port


def shell(commands: str, folder: Path) -> str:
    """Run commands to their end and give what they print."""
    return "\n".join(output_of("/bin/sh", "-ec", commands, env=ENVIRONMENT, cwd=folder))


@pytest.fixture
def made(tmp_path: Path, ports: tuple[int, int]) -> Iterator[Process]:
    """`make run` in a folder of its own, whose environment is that of the tests."""
    for name in ("Makefile", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").mkdir()
    for part in COMMANDS.parent.iterdir():
        (tmp_path / ".venv" / part.name).symlink_to(part)
    (tmp_path / ".venv/.installed").unlink(missing_ok=True)
    (tmp_path / ".venv/.installed").touch()
    chosen = f"PORT={ports[0]} REST_PORT={ports[1]}"
    make = Process(
        "/bin/sh", "-ec", f"exec {MAKE_RUN.strip()} {chosen}", env=ENVIRONMENT, cwd=tmp_path
    )
    with closing(make):
        make.line(READY)
        yield make


def test_make_run_and_what_it_and_the_readme_say_to_type(
    made: Process, tmp_path: Path, ports: tuple[int, int]
) -> None:
    printed = [line for line in made.lines if re.match(r"  (curl|\.venv)", line)]
    of_readme = TRY_IT.replace(":8000/", f":{ports[1]}/")
    of_readme = of_readme.replace("client_grpc.py", f"client_grpc.py --port {ports[0]}")
    for commands in ("\n".join(printed), of_readme):
        output = shell(commands, tmp_path)
        assert '"digit": 1' in output
        assert "predicted" in output


@pytest.fixture
def started(tmp_path: Path, ports: tuple[int, int]) -> Iterator[Process]:
    """A folder with the reader's files, and the server that the README starts there."""
    for name, version in (("resnet", 1), ("new", 2)):
        for suffix in ("xml", "bin"):
            shutil.copy(SAMPLE / f"{version}/model.{suffix}", tmp_path / f"{name}.{suffix}")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").touch()
    commands = START.replace(" 9000 ", f" {ports[0]} ").replace(" 8000", f" {ports[1]}")
    commands = commands.replace("\nie_serving", "\nexec ie_serving")
    server = Process("/bin/sh", "-ec", commands, env=ENVIRONMENT, cwd=tmp_path)
    with closing(server):
        server.line(READY)
        yield server


def test_a_model_of_ones_own(started: Process, tmp_path: Path, ports: tuple[int, int]) -> None:
    commands = ASK.replace("localhost:8000", f"localhost:{ports[1]}")
    status, metadata, predict, new_version = commands.replace("...", f"{ROW}").splitlines()
    assert "AVAILABLE" in shell(status, tmp_path)
    assert "signature_def" in shell(metadata, tmp_path)
    assert '"predictions"' in shell(predict, tmp_path)
    shell(new_version, tmp_path)
    until(lambda: re.search(r'"version": "2",\s+"state": "AVAILABLE"', shell(status, tmp_path)))
