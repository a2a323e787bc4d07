"""The share of the machine that this process has: its control groups, memory, other workers.

Its own control group and those above it limit the process. The memory that it may use is the
tightest of their limits, or the machine's memory. Sources: cgroup-v2.rst (`memory.max`) and
cgroup-v1/memory.rst of the kernel.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from ie_serving.core.runtime.heaps import unreclaimable_bytes

ReadFile = Callable[[str], str | None]
"""Gives a file's text, or None when there is no such file."""
_MOUNT: Final = "/sys/fs/cgroup"
PART: Final = 2
"""Divisor of the memory that gives the default budget of requests: half. The other half is for
models, the interpreter, and memory of requests beside the counted bytes."""


class Share:
    """Set once in each process, before its first use.

    Attributes:
        workers: number of processes that divide the server's processors and memory.
    """

    def __init__(self) -> None:
        self.workers = 1

    def of(self, whole: int) -> int:
        """Return this process's part of a number, at least 1."""
        return max(1, whole // self.workers)

    def of_limit(self, whole: int) -> int:
        """Return this process's part of a limit; 0, which sets no limit, stays 0."""
        return self.of(whole) if whole else 0


SHARE = Share()
"""The share of this process."""


def read_file(path: str) -> str | None:
    """See `ReadFile`."""
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return None


def groups(controller: str, read: ReadFile) -> Iterator[tuple[int, str]]:
    """Yield the version, 1 or 2, and the directory of each group that has a controller."""
    for line in (read("/proc/self/cgroup") or "").splitlines():
        # Version 2 has one line, without controllers: "0::/path"; version 1 one for each hierarchy.
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        own = PurePosixPath("/", path)
        for group in ("" if str(each) == "/" else str(each) for each in (own, *own.parents)):
            if not controllers:
                yield 2, f"{_MOUNT}{group}"
            elif controller in controllers.split(","):
                # Mounted under the names of all its controllers ("cpu,cpuacct"), or one of them.
                for mount in dict.fromkeys((controllers, controller)):
                    yield 1, f"{_MOUNT}/{mount}{group}"


def budget_of(setting: int) -> int:
    """Return the bytes that requests may hold; for a setting of 0, a part of the memory."""
    return setting or memory_limit(read_file, _machine()) // PART


def room() -> int:
    """Return the bytes of this process's part of the memory that it can still fill."""
    return max(1, SHARE.of(memory_limit(read_file, _machine())) - unreclaimable_bytes())


def memory_limit(read: ReadFile, machine: int) -> int:
    """Return the smallest limit in bytes of this process's cgroup and those above it.

    Args:
        read: reads the kernel's files.
        machine: bytes of the machine's memory, an upper bound for the result.
    """
    return min([machine, *_limits(read)])


def _limits(read: ReadFile) -> Iterator[int]:
    for version, group in groups("memory", read):
        text = read(f"{group}/{'memory.max' if version == 2 else 'memory.limit_in_bytes'}") or ""
        # Version 2 says "max" for no limit, version 1 a number larger than any memory.
        if text.strip().isdecimal():
            yield int(text)


def _machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
