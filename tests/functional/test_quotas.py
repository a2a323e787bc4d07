"""Threads of an inference follow the processors that the server may use: mask, quota, workers.

Quotas are those of real control groups, which only root can make.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.functional.cost import inside, own_group
from tests.functional.servers import SAMPLE, Server
from tests.process import COMMANDS

CPUS = sorted(os.sched_getaffinity(0))
COMPILED = re.compile(r"model compiled .*nireq=(\d+) threads=(\d+) streams=(\d+)")
PERIOD_US = 100_000

pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="one processor is all there is")


def test_an_affinity_mask(tmp_path: Path) -> None:
    enter = (
        f"import os, sys; os.sched_setaffinity(0, {CPUS[:1]}); os.execv(sys.argv[1], sys.argv[1:])"
    )
    assert chosen(tmp_path, sys.executable, "-c", enter) == (1, 1, 1)


def test_threads_follow_a_quota(tmp_path: Path, group: Path) -> None:
    with limited(group, PERIOD_US):
        assert chosen(tmp_path, *inside(group)) == (1, 1, 1)


def test_a_part_of_a_processor_counts_as_one(tmp_path: Path, group: Path) -> None:
    """With 1.5 a second thread has half of one."""
    with limited(group, PERIOD_US * 3 // 2):
        assert chosen(tmp_path, *inside(group))[1] == 2


def test_threads_follow_a_quota_of_a_group_above(tmp_path: Path, group: Path) -> None:
    with limited(group.parent, PERIOD_US // 2):
        assert chosen(tmp_path, *inside(group)) == (1, 1, 1)


def test_each_load_looks_anew(tmp_path: Path, group: Path) -> None:
    """Of a quota that has changed while the server runs, versions that load then take note."""
    versions = tmp_path / "digits"
    with closing(serve(versions, *inside(group))) as server:
        server.ready()
        with limited(group, PERIOD_US):
            shutil.copytree(SAMPLE / "1", tmp_path / "2")
            (tmp_path / "2").rename(versions / "2")
            server.line("version=2 state=AVAILABLE")
        assert compiled(server)[-1] == (1, 1, 1)


def test_workers_divide_the_processors(tmp_path: Path) -> None:
    _, whole, _ = chosen(tmp_path / "one")
    with closing(serve(tmp_path / "two", flags=("--workers=2",))) as server:
        server.ready()
        found = [threads for _, threads, _ in compiled(server)]
    assert found == [max(1, whole // 2)] * 2


def chosen(tmp_path: Path, *within: str) -> tuple[int, ...]:
    """Start a server by a command, and give its infer requests, threads and streams."""
    with closing(serve(tmp_path / "digits", *within)) as server:
        server.ready()
        (found,) = compiled(server)
    return found


def serve(versions: Path, *within: str, flags: tuple[str, ...] = ()) -> Server:
    # With a hint the sample, which is tiny, is not compiled for one thread by choice.
    shutil.copytree(SAMPLE / "1", versions / "1")
    model = ("--model_name=digits", f"--model_path={versions}")
    hint = (
        '--plugin_config={"PERFORMANCE_HINT": "LATENCY"}',
        "--file_system_poll_wait_seconds=0.1",
        "--inference_precision=f32",  # else a CPU with bf16 compiles it for each
    )
    return Server(*within, str(COMMANDS / "ie_serving"), "model", *model, *hint, *flags)


def compiled(server: Server) -> list[tuple[int, ...]]:
    return [tuple(map(int, numbers)) for numbers in COMPILED.findall(server.log)]


@contextmanager
def limited(group: Path, quota_us: int) -> Iterator[None]:
    """Give the processes of a group so much processor time in each period.

    Sources: cgroup-v2.rst (`cpu.max`) and sched-bwc.rst of the kernel.
    """
    version_2 = (group / "cpu.max").exists()
    file = group / ("cpu.max" if version_2 else "cpu.cfs_quota_us")
    file.write_text(f"{quota_us} {PERIOD_US}" if version_2 else str(quota_us))
    try:
        yield
    finally:
        file.write_text("max" if version_2 else "-1")


@pytest.fixture
def group() -> Iterator[Path]:
    """A group in a group, below that of the tests."""
    above = own_group("cpu") / f"ie_serving-{os.getpid()}"
    below = above / "server"
    try:
        below.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        if not (below / "cpu.max").exists() and not (below / "cpu.cfs_quota_us").exists():
            pytest.skip("cgroups here do not limit processors")
        yield below
    finally:
        below.rmdir()
        above.rmdir()
