"""Shared and exclusive locks on files, between threads and processes.

`flock` is used as it is, not a lock library: a version in use needs a shared lock, and the system
takes it back when a process dies. Every lock opens the file anew, so threads exclude each other
too. Machines exclude each other as far as the file system carries `flock` over.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Pause = Callable[[float], None]
"""Waits so many seconds; raises to end the wait for good."""

RETRY_S = 0.05
"""Seconds between two attempts; attempts rather than a blocking call, so that a stop ends the
wait."""


@contextmanager
def shared(path: Path, pause: Pause) -> Iterator[None]:
    """Hold `path` together with other holders; wait for an exclusive one with `pause`.

    Raises:
        OSError: the file can be neither made nor opened.
    """
    with _locked(path, fcntl.LOCK_SH, pause):
        yield


@contextmanager
def exclusive(path: Path, pause: Pause) -> Iterator[None]:
    """Hold `path` alone; wait for all others with `pause`. Raises: as `shared`."""
    with _locked(path, fcntl.LOCK_EX, pause):
        yield


@contextmanager
def if_free(path: Path) -> Iterator[bool]:
    """Lock `path` exclusively if it is free; tell whether it was. Raises: as `shared`."""
    descriptor = _open(path)
    try:
        yield _try(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)  # which gives the lock back, as the end of the process does


@contextmanager
def _locked(path: Path, kind: int, pause: Pause) -> Iterator[None]:
    descriptor = _open(path)
    try:
        while not _try(descriptor, kind):
            pause(RETRY_S)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open for writing, which network file systems require; read-only where writing is denied."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        if not path.exists():
            raise
        return os.open(path, os.O_RDONLY)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
