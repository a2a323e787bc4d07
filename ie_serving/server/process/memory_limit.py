"""Finds how much memory this process may use: the limit of its cgroup, or the machine's memory.

Sources: cgroup-v2.rst (`memory.max`) and cgroup-v1/memory.rst of the kernel.
"""

import os
from collections.abc import Iterator
from typing import Final

from ie_serving.core.runtime.heaps import unreclaimable_bytes
from ie_serving.core.runtime.machine_share import SHARE, Read, groups, read_file

PART: Final = 2
"""Divisor of the memory that gives the default budget of requests: half. The other half is for
models, the interpreter, and memory of requests beside the counted bytes."""


def budget_of(setting: int) -> int:
    """Return the bytes that requests may hold; for a setting of 0, a part of the memory."""
    return setting or memory_limit(read_file, _machine()) // PART


def room() -> int:
    """Return the bytes of this process's part of the memory that it can still fill."""
    return max(1, SHARE.of(memory_limit(read_file, _machine())) - unreclaimable_bytes())


def memory_limit(read: Read, machine: int) -> int:
    """Return the smallest limit in bytes of this process's cgroup and those above it.

    Args:
        read: reads the kernel's files.
        machine: bytes of the machine's memory, an upper bound for the result.
    """
    return min([machine, *_limits(read)])


def _limits(read: Read) -> Iterator[int]:
    for version, group in groups("memory", read):
        text = read(f"{group}/{'memory.max' if version == 2 else 'memory.limit_in_bytes'}") or ""
        # Version 2 says "max" for no limit, version 1 a number larger than any memory.
        if text.strip().isdecimal():
            yield int(text)


def _machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
