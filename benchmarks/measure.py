"""What a process and all its children use. Source: proc(5), through psutil."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil


def tree(pid: int) -> Iterator[psutil.Process]:
    """Yield the process and its living descendants."""
    root = psutil.Process(pid)
    yield root
    yield from root.children(recursive=True)


def cpu_s(pid: int) -> float:
    """Seconds of processor time, user and system, that the tree has used so far."""
    total = 0.0
    for process in tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def memory_mb(pid: int) -> float:
    """Memory of the tree now, in 10^6 bytes; pages that processes share are counted once."""
    total = 0
    for process in tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total / 1e6


def peak_mb(pid: int) -> float:
    """Sum of every process's highest resident memory, in 10^6 bytes, shared pages included."""
    total = 0
    for process in tree(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return total * 1024 / 1e6
