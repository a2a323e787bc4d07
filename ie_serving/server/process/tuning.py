"""How a worker process is tuned: the interpreter's turns, the default threads, freed memory.

What is set here holds for the whole process, so that only the process that serves sets it.

Freed memory is kept (`core/runtime/heaps.py`); `give_back.py` has it given back when no more large
requests come. What versions leave behind is given back when they are unloaded (`engines/openvino`).
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
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LONGEST_TURN_S = 0.001
"""Seconds for which a thread that decodes or encodes may keep the interpreter from the event loop.
A small request asks for it several times, so Python's default of 5 ms would add up."""
SHORT_THREADS = 32
"""Threads for short blocking work, that of large requests among it, made as they are needed.
Beyond, such work queues: more would only divide the processors further."""

MOST_CONNECTIONS = 10_000
"""Connections of both ports, where the limit of files allows more. Each takes some 20 KB when it is
idle, so all of them 200 MB."""
OTHER_FILES = 256
"""File descriptors that are not for connections: models and their copies, stores, log, and the
connections that are accepted beyond the limit (`connection_limit.EXTRA`)."""
LEAST_PART = 4
"""Of how many file descriptors one is for connections where there are fewer than that leaves."""
FEW_FILES = 1024
"""Fewer are told of: it is the soft limit of most systems, and enough for some 700 clients."""
MOST_FILES = 1 << 16
"""What the limit of files is raised to, at most."""


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
    return setting or min(MOST_CONNECTIONS, max(files // LEAST_PART, files - OTHER_FILES))


def raise_file_limit() -> None:
    """Let this process have as many files and connections open as the system allows it to.

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
                advice="raise it: ulimit -Hn, LimitNOFILE of systemd, ulimits of Docker",
            )
        )
