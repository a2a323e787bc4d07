"""Limits an engine's threads by the cores of the CPU affinity and the cgroup's CPU quota.

An engine sees only the host's cores; in a container with a quota of two it would start one thread
for each of 64 and be throttled. Sources: cgroup-v2.rst (`cpu.max`), sched-bwc.rst of the kernel.
"""

import math
import os
import time
from collections.abc import Collection, Iterator
from functools import lru_cache

from ie_serving.core.runtime.machine_share import SHARE, ReadFile, groups, read_file
from ie_serving.core.runtime.spare_cpu import SPARE_CPU

CPUS = "/sys/devices/system/cpu"
NODES = "/sys/devices/system/node"

FRESH_S = 0.05
"""Seconds for which limits count without another look. To read the files of a machine takes 1 ms,
and each load of a small model would read them twice."""


def thread_limit() -> int | None:
    """Give the number of threads to set, or None when nothing limits this process.

    Of several workers each has its part, rounded down: together they fill the machine once.
    """
    usable = SPARE_CPU.usable()
    whole, _ = limits(usable, fresh_period())
    if SHARE.workers == 1:
        return whole
    return SHARE.of(whole or cores(usable or range(os.cpu_count() or 1), read_file))


def threads() -> int:
    """Give how many threads are worth starting: the limit, or one for each CPU."""
    return thread_limit() or os.cpu_count() or 1


def node_limit() -> int | None:
    """Give the number of threads for an inference that keeps to one NUMA node.

    Returns:
        None: one node has all cores that this process may use, or this system tells no nodes.
    """
    _, of_node = limits(SPARE_CPU.usable(), fresh_period())
    return of_node


def fresh_period() -> int:
    """Number the period of `FRESH_S` seconds in which limits are read once."""
    return int(time.monotonic() / FRESH_S)


@lru_cache(maxsize=1)
def limits(usable: frozenset[int] | None, now: int) -> tuple[int | None, int | None]:
    """Give the limits of the process and of one NUMA node, as of `now`."""
    whole = limit(os.cpu_count() or 1, usable, cgroup_quota(read_file), read_file)
    return whole, cores_of_one_node(usable or (), read_file)


def cores_of_one_node(usable: Collection[int], read: ReadFile) -> int | None:
    """Count the usable cores of the NUMA node that has most of them; None if it has all.

    Source: `node/online` and `node*/cpulist`, cputopology.rst and numastat.rst of the kernel.
    """
    nodes = (
        _numbers(read(f"{NODES}/node{node}/cpulist")) for node in _numbers(read(f"{NODES}/online"))
    )
    most = max((cores(node & set(usable), read) for node in nodes), default=0)
    return most if 0 < most < cores(usable, read) else None


def _numbers(text: str | None) -> set[int]:
    """Read the kernel's lists, such as `0-3,8`; any other text gives an empty result."""
    found: set[int] = set()
    for part in (text or "").strip().split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return found


def limit(
    cpus: int, usable: Collection[int] | None, quota: float | None, read: ReadFile
) -> int | None:
    """Give the tightest limit in whole threads; None when that is all `cpus` or more.

    Args:
        cpus: processors of the machine.
        usable: the numbers of those that this process may run on; None where that is not known.
        quota: number of CPUs.
        read: gives the files of the system.
    """
    # Rounded up: with a quota of 1.5 CPUs a second thread is worth its half.
    allowed = min(len(usable or ()) or cpus, math.ceil(quota) if quota else cpus)
    if allowed >= cpus:
        return None
    return max(1, min(allowed, cores(usable, read) if usable else cpus))


def cores(usable: Collection[int], read: ReadFile) -> int:
    """Count the cores among CPUs; two CPUs may share one core (hyper-threading).

    By default engines compute with one thread a core: a second one would wait for its units.
    Source: `topology/thread_siblings_list` in the kernel's cputopology.rst.
    """
    return len({read(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list") or cpu for cpu in usable})


def cgroup_quota(read: ReadFile) -> float | None:
    """Give the smallest CPU quota, in CPUs, of this process's cgroup and those above it."""
    return min(_quotas(read), default=None)


def _quotas(read: ReadFile) -> Iterator[float]:
    for version, group in groups("cpu", read):
        files = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = " ".join(read(f"{group}/{file}") or "" for file in files).split()
        # Instead of a quota version 2 says "max", and version 1 says -1, where there is no limit.
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            yield int(words[0]) / int(words[1])
