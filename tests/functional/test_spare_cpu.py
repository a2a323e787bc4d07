"""While a version loads, the event loop has a CPU of its own: seen from outside of the server."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.functional.load import AVAILABLE, failure, states
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.serving import serves, several
from tests.functional.test_digits import IMAGES, over_grpc
from tests.functional.test_slow_loads import OFTEN, SCRIPT, put
from tests.functional.tiny import Gate
from tests.process import until

WHOLE = frozenset(os.sched_getaffinity(0))
OWN = frozenset([max(WHOLE)])
REST = WHOLE - OWN

KERNEL = """
import os
import numpy as np

def metadata():
    numbers = {"dtype": np.float32, "shape": [-1]}
    return {"inputs": {"x": numbers}, "outputs": {"cpus": numbers}}

def cpus(x):
    return np.array([len(os.sched_getaffinity(0))], np.float32)
"""

pytestmark = pytest.mark.skipif(len(WHOLE) < 2, reason="needs two CPUs")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A repository with a version 1 that loads at once."""
    return put(tmp_path / "digits", 1)


FLAGS = ("--allow_python", "--inference_precision=f32")
"""In f32: a load compiles once, also where the CPU has bf16."""


@pytest.fixture
def server(base: Path, tmp_path: Path) -> Iterator[Server]:
    models = several(tmp_path / "config.json", {"digits": str(base)})
    with Server(sys.executable, str(SCRIPT), *models, OFTEN, *FLAGS) as found:
        yield found.ready()


def masks(pid: int) -> dict[int, frozenset[int]]:
    """The CPUs of each thread, as the kernel shows them."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            found[int(task.name)] = _mask((task / "status").read_text())
    return found


def _mask(status: str) -> frozenset[int]:
    listed = re.search(r"Cpus_allowed_list:\s+(\S+)", status)
    assert listed
    ends = [[int(end) for end in part.split("-")] for part in listed[1].split(",")]
    return frozenset(cpu for each in ends for cpu in range(each[0], each[-1] + 1))


def test_while_a_version_loads_its_threads_keep_off_the_cpu_of_the_event_loop(
    server: Server, base: Path, gate: Gate
) -> None:
    worker = server.pids()[-1]
    assert set(masks(worker).values()) == {WHOLE}
    before = over_grpc(server, 1, IMAGES)
    put(base, 2, gate)
    until(lambda: masks(worker)[worker] == OWN)
    assert REST in masks(worker).values()
    meanwhile = over_grpc(server, 1, IMAGES)
    np.testing.assert_array_equal(meanwhile["probabilities"], before["probabilities"])
    gate.open()
    until(lambda: states(server).get(2) == AVAILABLE)
    until(lambda: set(masks(worker).values()) == {WHOLE})


def test_after_a_load_that_failed_every_thread_has_all_cpus(
    server: Server, base: Path, gate: Gate
) -> None:
    worker = server.pids()[-1]
    broken = shutil.copytree(SAMPLE / "1", base.parent / "broken")
    (broken / "model.xml").write_text("<net/>")
    broken.rename(base / "2")
    until(lambda: 2 in states(server) and failure(server, 2) != "")
    put(base, 3, gate)
    until(lambda: masks(worker)[worker] == OWN)
    gate.open()
    until(lambda: serves(server, 3))
    until(lambda: set(masks(worker).values()) == {WHOLE})


def test_the_process_of_a_kernel_that_starts_meanwhile_has_all_cpus(
    server: Server, base: Path, gate: Gate, tmp_path: Path
) -> None:
    worker = server.pids()[-1]
    put(base, 2, gate)
    until(lambda: masks(worker)[worker] == OWN)
    (tmp_path / "kernel" / "1").mkdir(parents=True)
    (tmp_path / "kernel" / "1" / "kernel.py").write_text(KERNEL)
    kernel = {"base_path": str(tmp_path / "kernel"), "isolation": "process"}
    models = {"digits": str(base), "kernel": {**kernel, "kernel": "kernel.py:cpus"}}
    several(tmp_path / "config.json", models)
    until(lambda: serves(server, 1, "kernel"))
    assert masks(worker)[worker] == OWN, "the load is still under way"
    reply = server.rest.post("/v1/models/kernel:predict", json={"inputs": {"x": [1.0]}})
    assert reply.json() == {"outputs": [len(WHOLE)]}
    gate.open()
