"""Thread counts follow the affinity and the tightest cgroup quota."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.engines.run import threads as threads_module
from ie_serving.engines.run.threads import (
    CPUS,
    NODES,
    cgroup_quota,
    cores_of_one_node,
    limit,
    node_limit,
    thread_limit,
)

V2 = "0::/pod/container"
V1 = "5:memory:/pod\n4:cpu,cpuacct:/pod/container"
ROOT = "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        pytest.param(V2, {}, None, id="no quota"),
        pytest.param(V2, {"pod/container/cpu.max": "max 100000"}, None, id="none in version 2"),
        pytest.param(V2, {"pod/container/cpu.max": "150000 100000"}, 1.5, id="version 2"),
        pytest.param(
            V2,
            {"pod/container/cpu.max": "400000 100000", "pod/cpu.max": "200000 100000"},
            2.0,
            id="a quota above is tighter",
        ),
        pytest.param("0::/", {"cpu.max": "100000 100000"}, 1.0, id="inside a container's names"),
        pytest.param(
            V1,
            {
                "cpu,cpuacct/pod/container/cpu.cfs_quota_us": "50000",
                "cpu,cpuacct/pod/container/cpu.cfs_period_us": "100000",
            },
            0.5,
            id="version 1",
        ),
        pytest.param(
            V1,
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            None,
            id="none in version 1",
        ),
        pytest.param("rubbish", {"cpu.max": "x y z"}, None, id="unreadable"),
        pytest.param(
            "0::/kubepods/pod1/app",
            {"kubepods/cpu.max": "800000 100000", "kubepods/pod1/cpu.max": "250000 100000"},
            2.5,
            id="version 2: of the pod",
        ),
        pytest.param(
            "12:cpu,cpuacct:/docker/77\n0::/docker/77",
            {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"},
            3.0,
            id="both versions: the container sees its own group as the root",
        ),
        pytest.param("0::/../other", {"cpu.max": "100000 50000"}, 2.0, id="outside of the root"),
    ],
)
def test_the_tightest_quota_of_a_cgroup_counts(
    tmp_path: Path, own: str, files: Mapping[str, str], quota: float | None
) -> None:
    tree = {"/proc/self/cgroup": own, **{f"{ROOT}/{name}": text for name, text in files.items()}}
    for name, text in tree.items():
        place = tmp_path / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")

    def read(path: str) -> str | None:
        place = tmp_path / path.lstrip("/")
        return place.read_text() if place.is_file() else None

    assert cgroup_quota(read) == quota
    assert limit(8, range(8), quota, read) == (quota and math.ceil(quota))


def test_without_cgroups_there_is_no_quota() -> None:
    assert cgroup_quota({}.get) is None


@pytest.mark.parametrize(
    ("usable", "quota", "threads"),
    [
        pytest.param(range(8), None, None, id="nothing limits"),
        pytest.param(range(4), None, 4, id="affinity"),
        pytest.param(range(8), 2.5, 3, id="a part of a CPU counts as one"),
        pytest.param(range(2), 4.0, 2, id="the tighter of both"),
        pytest.param(range(8), 0.1, 1, id="one at least"),
        pytest.param(range(8), 16.0, None, id="more than there is"),
        pytest.param(None, None, None, id="no affinity on this system"),
        pytest.param(None, 3.0, 3, id="a quota without affinity"),
    ],
)
def test_limit(usable: Sequence[int] | None, quota: float | None, threads: int | None) -> None:
    assert limit(8, usable, quota, {}.get) == threads


@given(st.integers(1, 512), st.integers(1, 512), st.floats(0.01, 600) | st.none())
def test_a_limit_is_never_more_than_there_is(cpus: int, usable: int, quota: float | None) -> None:
    threads = limit(cpus, range(usable), quota, {}.get)
    assert threads is None or 1 <= threads < max(cpus, 2)


TWINS = {
    f"{CPUS}/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}\n"
    for cpu in range(8)
}
"""Four cores of two CPUs each: 0 and 4, 1 and 5 and so on."""


@pytest.mark.parametrize(
    ("usable", "quota", "threads"),
    [
        pytest.param(range(8), None, None, id="nothing limits: the engine chooses"),
        pytest.param([0, 4], None, 1, id="two of one core"),
        pytest.param([0, 1], None, 2, id="two cores"),
        pytest.param([0, 1, 4, 5], None, 2, id="two whole cores"),
        pytest.param(range(8), 6.0, 4, id="no second thread of a core for a quota"),
        pytest.param([0, 1, 4, 5], 1.0, 1, id="the quota is tighter"),
    ],
)
def test_a_core_counts_once(
    usable: Sequence[int], quota: float | None, threads: int | None
) -> None:
    assert limit(8, usable, quota, TWINS.get) == threads


TWO_NODES = {
    f"{NODES}/online": "0-1\n",
    f"{NODES}/node0/cpulist": "0-1,4-5\n",
    f"{NODES}/node1/cpulist": "2-3,6-7\n",
    **TWINS,
}
"""Two nodes of two cores each; CPUs of one core are in one node."""


@pytest.mark.parametrize(
    ("usable", "tree", "threads"),
    [
        pytest.param(range(8), TWO_NODES, 2, id="all of both nodes"),
        pytest.param([0, 1, 4, 5], TWO_NODES, None, id="one node"),
        pytest.param([0], TWO_NODES, None, id="a part of one node"),
        pytest.param([0, 1, 2], TWO_NODES, 2, id="more of one node than of the other"),
        pytest.param([0, 4, 2], TWO_NODES, 1, id="a core of each"),
        pytest.param(range(8), TWO_NODES | {f"{NODES}/online": "0,2\n"}, 2, id="a node has gone"),
        pytest.param(range(8), TWINS, None, id="no nodes are told"),
        pytest.param(
            range(8), {f"{NODES}/online": "0\n", **TWINS}, None, id="nothing is told of it"
        ),
        pytest.param(
            range(8),
            {
                f"{NODES}/online": "0-1",
                f"{NODES}/node0/cpulist": "0-7",
                f"{NODES}/node1/cpulist": "\n",
            },
            None,
            id="a node of memory alone",
        ),
        pytest.param([], {}, None, id="no affinity on this system"),
    ],
)
def test_the_cores_of_one_node_are_counted(
    usable: Sequence[int], tree: Mapping[str, str], threads: int | None
) -> None:
    assert cores_of_one_node(usable, tree.get) == threads


def test_many_loads_at_a_time_read_the_files_of_the_machine_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were a twentieth of the time in which a thousand small models load."""
    read: list[str] = []
    now = -1
    monkeypatch.setattr(threads_module, "read_file", read.append)
    monkeypatch.setattr(threads_module, "fresh_period", lambda: now)
    assert (thread_limit(), node_limit()) == (thread_limit(), node_limit())
    assert len(read) == len(set(read)) > 0
    before, now = len(read), now - 1
    thread_limit()
    assert len(read) == 2 * before, "a quota that changes counts for the next load"


def test_this_machine_has_an_answer() -> None:
    threads = thread_limit()
    assert threads is None or threads >= 1
