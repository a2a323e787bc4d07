"""A start shows that it loads: a line on a terminal, sums in the log, and what a command says."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.functional.commands import ie_serving
from tests.functional.conftest import Serve
from tests.functional.servers import READY, SAMPLE, config_flag
from tests.process import COMMANDS, free_ports, until
from tests.terminal import Terminal

MANY = 20
SLOW = """
import os
import threading

class Slow:
    def load(self, ctx):
        open(os.environ["OPENED"]).read()

    def execute(self, inputs, ctx):
        return inputs

    def metadata(self):
        number = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": number}, "outputs": {"x": number}}
"""
"""A kernel whose load waits until a pipe is written to, and closed."""


def configured(tmp_path: Path, count: int) -> Path:
    path = tmp_path / "models.json"
    config_flag(path, *({"name": f"m{n}", "base_path": str(SAMPLE)} for n in range(count)))
    return path


@pytest.mark.parametrize(("count", "form"), [(MANY, "text"), (MANY, "json"), (2, "text")])
def test_many_models_are_summed_up(serve: Serve, tmp_path: Path, count: int, form: str) -> None:
    path = configured(tmp_path, count)
    server = serve("ie_serving", "config", f"--config_path={path}", f"--log_format={form}")
    details = sum("version loaded" in line for line in server.lines)
    if form == "json" or count < MANY:
        assert details == count, "programs read these, and few models are no flood"
        return
    assert details == 0
    assert len(server.lines) < MANY
    (summed,) = [line for line in server.lines if "models loaded" in line]
    assert f"models={MANY} serving={MANY} failed=0 took_s=" in summed


@contextmanager
def loading(tmp_path: Path, **streams: int) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A server whose model loads until a pipe is opened; its process, REST port and pipe."""
    version = tmp_path / "m" / "1"
    version.mkdir(parents=True)
    (version / "kernel.py").write_text(SLOW)
    pipe, run = tmp_path / "pipe", tmp_path / "run"
    os.mkfifo(pipe)
    run.mkdir()
    port, rest_port = free_ports(2)
    command = [str(COMMANDS / "ie_serving"), "model", "--model_name=m", "--kernel=kernel.py"]
    command += ["--allow_python=true"]
    command += [f"--model_path={tmp_path / 'm'}", f"--port={port}", f"--rest_port={rest_port}"]
    environment = {**os.environ, "OPENED": str(pipe), "XDG_RUNTIME_DIR": str(run)}
    with subprocess.Popen(command, env=environment, **streams) as server:
        try:
            yield server, rest_port, pipe
        finally:
            server.kill()


def test_a_terminal_shows_progress_which_lines_of_the_log_do_not_mix_with(tmp_path: Path) -> None:
    with Terminal() as terminal, loading(tmp_path, stderr=terminal.end) as (_, _, pipe):
        terminal.until(r"loading models \[\.+\] 0 models of 1 models")
        pipe.write_text("go")
        shown = terminal.until(READY)
        assert "models 2" not in shown, "the line is erased before one of the log"


def test_a_command_says_that_the_server_still_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loading(tmp_path) as (server, rest_port, _):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
        address = f"http://localhost:{rest_port}"
        until(lambda: any((tmp_path / "run").glob("ie_serving/*.json")))
        ran = ie_serving("status", "--url", address)
        assert ran.code == 3
        assert f"the server at {address} (process {server.pid}) loads its models" in ran.err
        assert "--open_ports_early" in ran.err
