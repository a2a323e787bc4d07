"""The memory that the process may use is found as the kernel tells it."""

import pytest

from ie_serving.core.runtime.machine_share import budget_of, memory_limit, room

MACHINE = 1 << 34
V2 = "/sys/fs/cgroup"
V1 = "/sys/fs/cgroup/memory"
UNLIMITED = "9223372036854771712\n"


@pytest.mark.parametrize(
    ("cgroup", "files", "limit"),
    [
        pytest.param("", {}, MACHINE, id="no cgroups"),
        pytest.param("0::/\n", {f"{V2}/memory.max": "536870912\n"}, 1 << 29, id="a container"),
        pytest.param("0::/\n", {f"{V2}/memory.max": "max\n"}, MACHINE, id="without a limit"),
        pytest.param(
            "0::/a/b\n",
            {f"{V2}/a/b/memory.max": "max\n", f"{V2}/a/memory.max": "1000\n"},
            1000,
            id="a limit further up",
        ),
        pytest.param(
            "5:cpu:/x\n4:memory:/x\n",
            {f"{V1}/x/memory.limit_in_bytes": "2000\n", f"{V1}/memory.limit_in_bytes": UNLIMITED},
            2000,
            id="version 1",
        ),
        pytest.param("0::/\n", {f"{V2}/memory.max": f"{MACHINE * 2}"}, MACHINE, id="too high"),
    ],
)
def test_the_smallest_limit_counts(cgroup: str, files: dict[str, str], limit: int) -> None:
    files = {"/proc/self/cgroup": cgroup, **files}
    assert memory_limit(files.get, MACHINE) == limit


def test_room_is_what_this_process_does_not_hold() -> None:
    assert 0 < room() < 2 * budget_of(0)


def test_this_process_has_a_budget() -> None:
    assert budget_of(7) == 7
    assert budget_of(0) > 1 << 20
