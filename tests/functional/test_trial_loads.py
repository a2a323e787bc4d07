"""`--load_isolation process`: a version whose load kills its process costs no request."""

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
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


def put(base: Path, version: int, end: str) -> None:
    """Add a version whose load ends as `end` says."""
    beside = base.parent / "beside"
    beside.mkdir(parents=True)
    (beside / "kernel.py").write_text(KERNEL.format(end=end))
    base.mkdir(exist_ok=True)
    beside.rename(base / str(version))


class Trials(Server):
    """A server of the sample, and of a model whose versions a test puts beside its first.

    Args of the constructor:
        folder: where its files go.
    """

    def __init__(self, folder: Path) -> None:
        self.base, self._newest = folder / "m", 0
        self.put("pass")
        kernel = {"base_path": str(self.base), "kernel": "kernel.py"}
        models = several(folder / "config.json", {"digits": str(SAMPLE), "m": kernel})
        super().__init__("ie_serving", *models, *FLAGS)

    def put(self, end: str) -> int:
        """Add a version whose load ends as `end` says; give its number."""
        self._newest += 1
        put(self.base, self._newest, end)
        return self._newest

    def withdraw(self, version: int) -> None:
        away = (self.base / str(version)).rename(self.base.with_name("withdrawn"))
        shutil.rmtree(away)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with closing(Trials(tmp_path_factory.mktemp("trials"))) as server:
        server.ready()
        yield server


@pytest.mark.thinned(2)
@pytest.mark.parametrize("end", ENDS)
def test_a_load_that_ends_its_process_costs_no_request(server: Trials, end: str) -> None:
    pids = server.pids()
    with Load(server) as load:
        version = server.put(end)
        failed = rf"version failed to load .*model=m version={version}.*trial load .*{ENDS[end]}"
        server.line(failed)
    assert load.failures == []
    assert re.search(r"with [1-9]\d* MB in use", failure(server, version, "m"))
    now = states(server, "m")
    assert (now[1], now[version]) == (AVAILABLE, LOADING)
    assert server.pids()[:2] == pids[:2]
    server.withdraw(version)


def test_an_orderly_failure_is_that_of_the_worker(server: Trials) -> None:
    version = server.put("raise ValueError('no table')")
    server.line(f"version failed to load .*model=m version={version}.*no table")
    assert "trial load" not in failure(server, version, "m")
    server.withdraw(version)


def test_a_content_that_has_loaded_is_not_tried_again(server: Trials, tmp_path: Path) -> None:
    version = server.put("pass")
    assert _trial_s(server, version) > 0.1
    (server.base / str(version)).rename(tmp_path / "kept")
    server.line("version state changed model=m version=1 state=AVAILABLE")
    (tmp_path / "kept").rename(server.base / str(version))
    assert _trial_s(server, version) < 0.1


def _trial_s(server: Server, version: int) -> float:
    loaded = server.line(f"version loaded model=m version={version} ")
    return float(loaded.partition("trial_s=")[2].split()[0])
