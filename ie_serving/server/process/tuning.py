"""How a worker process is tuned: the interpreter's turns, the default threads, freed memory.

What is set here holds for the whole process, so that only the process that serves sets it.

glibc serves blocks above a threshold from the kernel and gives them back at once: a 4 MB request
then costs thousands of page faults. So freed memory is kept in the process; `give_back.py` has it
given back when no more large requests come. What versions leave behind is still given back, when
they are unloaded (`engines/openvino`).
"""

import asyncio
import ctypes
import gc
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

LONGEST_TURN_S = 0.001
"""Seconds for which a thread that decodes or encodes may keep the interpreter from the event loop.
A small request asks for it several times, so Python's default of 5 ms would add up."""
SHORT_THREADS = 32
"""Threads for short blocking work, that of large requests among it, made as they are needed.
Beyond, such work queues: more would only divide the processors further."""
LARGEST_KEPT_BYTES = 32 << 20
"""Largest block in bytes that is kept when it is freed; larger ones come fresh from the kernel each
time. The most that glibc takes as a threshold on 64-bit machines. Source: mallopt(3)."""
MOST_FREE_BYTES = 128 << 20
"""Bytes of free memory at the top of the heap, above which it goes back to the kernel: room for a
few large requests at a time."""
SMALL_BUDGET = 512 << 20
"""Bytes that requests may hold, up to which few heaps keep freed memory, each a part of the budget
at most. glibc gives each thread a heap of its own, up to eight for each processor; what they keep
together may be more than a small container has: 730 MB where 512 MB was the limit, 490 with two."""
FEW_HEAPS = 2
KEPT_PART = 16
"""Part of a small budget that a heap keeps, as a block or at its top."""

MOST_CONNECTIONS = 10_000
"""Connections of both ports, where the limit of files allows more. Each takes some 20 KB when it is
idle, so all of them 200 MB."""
OTHER_FILES = 256
"""File descriptors that are not for connections: models and their copies, stores, log, and the
connections that are accepted beyond the limit (`connection_limit.EXTRA`)."""
MOST_FILES = 1 << 16
"""What the limit of files is raised to, at most."""

# Names of glibc's parameters. Source: malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def tune(budget: int = sys.maxsize) -> None:
    """Tune this process. Called once, on the event loop that will serve.

    Args:
        budget: bytes that requests may hold.
    """
    sys.setswitchinterval(LONGEST_TURN_S)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(SHORT_THREADS, "blocking"))
    keep_freed_memory(budget)
    raise_file_limit()


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Tell the garbage collector that what the body makes, modules above all, is there for good.

    It would look through them again and again while they are made, a sixth of the time that a start
    takes, and for as long as the process lives. What is garbage then is never collected; it is
    little. Source: documentation of `gc.freeze`.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def most_connections(setting: int) -> int:
    """Give how many connections may be open; where the setting is 0, by the limit of files.

    Called after `tune`.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return setting or max(1, min(MOST_CONNECTIONS, files - OTHER_FILES))


def raise_file_limit() -> None:
    """Let this process have as many files and connections open as the system allows it to.

    The soft limit is 1,024 in many places, for the sake of programs that call select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def keep_freed_memory(budget: int = sys.maxsize) -> None:
    """Raise glibc's thresholds; on another C library nothing happens.

    Args:
        budget: bytes that requests may hold.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    most = sys.maxsize
    if budget <= SMALL_BUDGET:
        mallopt(_M_ARENA_MAX, FEW_HEAPS)
        most = budget // KEPT_PART
    mallopt(_M_MMAP_THRESHOLD, min(most, LARGEST_KEPT_BYTES))
    mallopt(_M_TRIM_THRESHOLD, min(most, MOST_FREE_BYTES))
