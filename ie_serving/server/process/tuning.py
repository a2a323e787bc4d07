"""Tunes a worker process: interpreter switch interval, default threads, file limit, freed memory.

These settings affect the whole process, so only the process that serves changes them.

The process keeps freed memory (`core/runtime/heaps.py`); `garbage.py` returns it when no more
large requests come. Memory of versions is returned when they are unloaded (`engines/openvino`).
"""

import asyncio
import gc
import logging
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ie_serving.core.runtime.heaps import HEAPS
from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LONGEST_TURN_S = 0.001
"""Seconds for which a thread that decodes or encodes may keep the interpreter from the event loop.
A small request needs it several times, so Python's default of 5 ms would add up."""
SHORT_THREADS = 32
"""Most threads for short blocking work, including that of large requests; made on demand. Further
work queues: more threads would only divide the processors further."""
MOST_CONNECTIONS = 10_000
"""Most connections of both ports, if the limit of files permits. An idle one takes some 20 KB, so
all of them 200 MB."""
OTHER_FILES = 256
"""File descriptors reserved for other uses: models and their copies, stores, log, and connections
that are accepted beyond the limit (`connection_limit.EXTRA`)."""
LEAST_PART = 4
"""One file descriptor in this many, at least, is for connections if the limit of files is low."""
FEW_FILES = 1024
"""A lower limit is logged: this is the soft limit of most systems, enough for some 700 clients."""
LEAST_FILES = 64
"""File descriptors without which no server starts: with one model it opens about 40."""
MOST_FILES = 1 << 16
"""Highest value that the limit of files is raised to."""
RAISE_IT = "raise it: ulimit -Hn, LimitNOFILE of systemd, ulimits of Docker"


def tune(budget: int = sys.maxsize) -> None:
    """Tune this process. Called once, on the event loop that will serve.

    Args:
        budget: bytes that requests may hold.
    """
    sys.setswitchinterval(LONGEST_TURN_S)
    threads = ThreadPoolExecutor(SHORT_THREADS, "blocking", initializer=SPARE_CPU.settle)
    asyncio.get_running_loop().set_default_executor(threads)
    HEAPS.keep(budget)
    raise_file_limit()


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Exempt the objects that the body makes, modules above all, from garbage collection.

    The collector would visit them repeatedly while they are made, a sixth of the time of a start,
    and as long as the process lives. Garbage among them is never collected; it is little. Source:
    documentation of `gc.freeze`.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def most_connections(setting: int) -> int:
    """Return how many connections may be open; for a setting of 0, from the limit of files.

    Called after `tune`.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return setting or min(MOST_CONNECTIONS, max(files // LEAST_PART, files - OTHER_FILES))


def need_files(workers: int) -> None:
    """Raise the soft limit of open files to what a start needs, in the arbiter.

    Args:
        workers: the arbiter holds files for each.

    Raises:
        ServingError: the hard limit is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = LEAST_FILES * workers
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if resource.RLIM_INFINITY != hard < needed:
        raise ServingError(
            f"{hard} files may be open, and the server needs at least {needed} and one for each"
            f" connection: {RAISE_IT}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def raise_file_limit() -> None:
    """Raise this process's limit of open files and connections as far as the system permits.

    The soft limit is 1,024 in many places, for the sake of programs that call select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < FEW_FILES:
        log.warning(
            Event(
                "few files may be open",
                files=most,
                connections=most_connections(0),
                advice=RAISE_IT,
            )
        )
