"""`--load_isolation process`: a version whose load kills its process costs no request."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.load import AVAILABLE, LOADING, Load, failure, states
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.serving import several

KERNEL = """
import os, signal

class Kernel:
    def load(self, ctx):
        kept = bytearray(os.urandom(1 << 20) * 20)
        {end}

    def metadata(self):
        number = {{"dtype": "float32", "shape": [-1]}}
        return {{"inputs": {{"x": number}}, "outputs": {{"y": number}}}}

    def execute(self, inputs):
        return inputs["x"]
"""
ENDS = {
    "os.kill(os.getpid(), signal.SIGKILL)": r"killed by SIGKILL \(the kernel kills so",
    "os.kill(os.getpid(), signal.SIGSEGV)": "killed by SIGSEGV",
    "raise MemoryError('no 9 GB')": "it found no memory: .*no 9 GB",
    "os._exit(3)": "exit code 3",
}


FLAGS = ("--load_isolation=process", "--allow_python", "--file_system_poll_wait_seconds=0.2")
Serve = Callable[..., Server]


def put(base: Path, version: int, end: str) -> None:
    """Add a version whose load ends as `end` says."""
    beside = base.parent / "beside"
    beside.mkdir(parents=True)
    (beside / "kernel.py").write_text(KERNEL.format(end=end))
    base.mkdir(exist_ok=True)
    beside.rename(base / str(version))


def started(serve: Serve, base: Path) -> Server:
    put(base, 1, "pass")
    kernel = {"base_path": str(base), "kernel": "kernel.py"}
    models = several(base.parent / "config.json", {"digits": str(SAMPLE), "m": kernel})
    return serve("ie_serving", *models, *FLAGS)


@pytest.mark.parametrize("end", ENDS)
def test_a_load_that_ends_its_process_costs_no_request(
    tmp_path: Path, serve: Serve, end: str
) -> None:
    server = started(serve, tmp_path / "m")
    pids = server.pids()
    with Load(server) as load:
        put(tmp_path / "m", 2, end)
        server.line(f"version failed to load .*model=m version=2.*trial load .*{ENDS[end]}")
    assert load.failures == []
    assert re.search(r"with [1-9]\d* MB in use", failure(server, 2, "m"))
    assert states(server, "m") == {1: AVAILABLE, 2: LOADING}
    assert server.pids()[:2] == pids


def test_an_orderly_failure_is_that_of_the_worker(tmp_path: Path, serve: Serve) -> None:
    server = started(serve, tmp_path / "m")
    put(tmp_path / "m", 2, "raise ValueError('no table')")
    server.line("version failed to load .*model=m version=2.*no table")
    assert "trial load" not in failure(server, 2, "m")


def test_a_content_that_has_loaded_is_not_tried_again(tmp_path: Path, serve: Serve) -> None:
    server = started(serve, tmp_path / "m")
    put(tmp_path / "m", 2, "pass")
    assert _trial_s(server) > 0.1
    (tmp_path / "m" / "2").rename(tmp_path / "2")
    server.line("version state changed model=m version=1 state=AVAILABLE")
    (tmp_path / "2").rename(tmp_path / "m" / "2")
    assert _trial_s(server) < 0.1


def _trial_s(server: Server) -> float:
    return float(
        server.line("version loaded model=m version=2 ").partition("trial_s=")[2].split()[0]
    )
