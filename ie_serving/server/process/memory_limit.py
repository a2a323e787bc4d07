"""Finds how much memory this process may use: the limit of its cgroup, or the machine's memory.

Sources: cgroup-v2.rst (`memory.max`) and cgroup-v1/memory.rst of the kernel.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from ie_serving.core.runtime.heaps import unreclaimable_bytes
from ie_serving.core.runtime.machine_share import SHARE

Read = Callable[[str], str | None]
"""Gives a file's text, or None when there is no such file."""

MOUNT: Final = "/sys/fs/cgroup"
PART: Final = 2
"""Divisor of the memory that gives the default budget of requests: half. The other half is for
models, the interpreter, and memory of requests beside the counted bytes."""


def budget_of(setting: int) -> int:
    """Return the bytes that requests may hold; for a setting of 0, a part of the memory."""
    return setting or memory_limit(_read, _machine()) // PART


def room() -> int:
    """Return the bytes of this process's part of the memory that it can still fill."""
    return max(1, SHARE.of(memory_limit(_read, _machine())) - unreclaimable_bytes())


def memory_limit(read: Read, machine: int) -> int:
    """Return the smallest limit in bytes of this process's cgroup and those above it.

    Args:
        read: reads the kernel's files.
        machine: bytes of the machine's memory, an upper bound for the result.
    """
    lines = (read("/proc/self/cgroup") or "").splitlines()
    return min([machine, *(limit for line in lines for limit in _of(line, read))])


def _of(line: str, read: Read) -> Iterator[int]:
    # Version 2 has one line, without controllers: "0::/path"; version 1 a line for each hierarchy.
    _, controllers, path = [*line.split(":", 2), "", ""][:3]
    own = PurePosixPath("/", path)
    for group in (own, *own.parents):
        place = "" if str(group) == "/" else str(group)
        if not controllers:
            yield from _number(read(f"{MOUNT}{place}/memory.max"))
        elif "memory" in controllers.split(","):
            yield from _number(read(f"{MOUNT}/memory{place}/memory.limit_in_bytes"))


def _number(text: str | None) -> Iterator[int]:
    # Version 2 says "max" for no limit, version 1 a number larger than any memory.
    if text is not None and text.strip().isdecimal():
        yield int(text)


def _machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
