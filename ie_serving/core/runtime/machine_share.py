"""The share of the machine that this process has: its control groups, memory, other workers.

The control groups that limit this process: its own and those above it.

Sources: cgroup-v2.rst and cgroup-v1 of the kernel.
"""

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final


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


Read = Callable[[str], str | None]
"""Gives a file's text, or None when there is no such file."""

_MOUNT: Final = "/sys/fs/cgroup"


def read_file(path: str) -> str | None:
    """See `Read`."""
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return None


def groups(controller: str, read: Read) -> Iterator[tuple[int, str]]:
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
