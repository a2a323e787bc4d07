"""Controls how much freed memory glibc's heaps keep, and when it goes back to the kernel.

By default glibc takes blocks above a threshold from the kernel and returns them when freed: each 4
MB request then costs thousands of page faults. So a server keeps freed memory, and returns it when
no more large requests come, and when a version has been unloaded.

`malloc_trim` returns memory that is free between blocks, but the free end only of the main heap.
Each thread has one of the other heaps, and only a thread of that heap can shorten it, by freeing a
block while the threshold is low: so threads are started for this alone. A new thread gets a heap
without threads, or a new heap, or, if the limit is reached, the next in turn.
Sources: mallopt(3), malloc_trim(3), arena.c and malloc.c of glibc 2.36.
"""

import _thread
import ctypes
import mmap
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

LARGEST_KEPT_BYTES: Final = 32 << 20
"""Largest block in bytes that is kept when freed; larger ones are taken from the kernel each time.
The highest threshold that glibc accepts on 64-bit machines. Source: mallopt(3)."""
MOST_FREE_BYTES: Final = 128 << 20
"""Free bytes at the end of a heap above which the end is returned to the kernel: room for a few
large requests at a time."""
SMALL_BUDGET: Final = 512 << 20
"""Budget of requests in bytes up to which few heaps keep freed memory, each at most a part of the
budget. Many heaps together may keep more than a small container has: 730 MB with a limit of 512 MB,
490 MB with two heaps."""
FEW_HEAPS: Final = 2
KEPT_PART: Final = 64
"""A heap keeps one part in this many of a small budget, as a block or at its end. Growing texts of
15 MB leave holes in a heap: with a sixteenth of 256 MB, 150 clients that read no replies took a
server to 400 to 511 MB, with this to 340."""
HEAPS_PER_CPU: Final = 8
MOST_HEAPS: Final = 64
"""Heaps of all threads together: on few processors as many as glibc has. With two for each
processor, the rate of 4 MB requests at concurrency 4 fell to 0.87 times."""
ROUNDS: Final = 2
"""Threads for each heap that shorten heaps. The first get the heaps that have no threads."""
MODEL_BLOCK_BYTES: Final = 1 << 20
"""Smallest block in bytes that comes from the kernel while a model is loaded, also for requests,
which fault their memory in anew meanwhile. In a heap, weights would leave hundreds of megabytes of
free memory. glibc returns them with the heap locked, 40 ms for 500 MB. A thread that waits for that
lock may hold the interpreter, and then the event loop waits for both."""
SMALL_BLOCK_BYTES: Final = 128
"""Largest freed block in bytes that glibc keeps unmerged, by default. While models are loaded it
keeps none: OpenVINO makes and frees a million small blocks for each, and glibc would merge the
kept ones again and again, a sixth of the time that a small model takes to compile."""
SHORTENING_BYTES: Final = 128 << 10
"""Size of a block whose freeing makes glibc check the end of the heap: at least 64 KB."""
MOST_LEFT_BYTES: Final = 16 << 20
"""Bytes that freed versions may leave in the heaps, for the next to use. Beyond it all heaps are
given back: milliseconds in many threads, for which requests wait."""
PATIENCE_S: Final = 1.0
"""Seconds that all threads together have to shorten their heaps; then they are left alone."""

TurnQueue: TypeAlias = SimpleQueue[None]
"""Lets as many threads pass as it has entries."""

# Names of glibc's parameters. Source: malloc.h.
M_MXFAST: Final = 1
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8

_UNRECLAIMABLE: Final = re.compile(r"^Rss(?:Anon|Shmem):\s*(\d+) kB$", re.MULTILINE)


def resident_bytes() -> int:
    """Return the resident bytes of this process; 0 if the system does not report them."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def unreclaimable_bytes(pid: int | None = None) -> int:
    """Return the resident bytes that the kernel cannot drop: without pages of mapped files.

    Args:
        pid: process id of the process; None for this one.

    Returns:
        0 if the system does not report them, or the process has ended.
    """
    try:
        status = Path(f"/proc/{pid or 'self'}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return sum(int(size) << 10 for size in _UNRECLAIMABLE.findall(status))


class Heaps:
    """The heaps of this process. Any thread may use it; with another C library it does nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._most_free = self._largest_kept = self._loads = self._left = 0
        libc: Any = ctypes.CDLL(None)
        self._libc: Any = (
            libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None
        )
        if self._libc:
            # ctypes truncates addresses to 32 bits unless these types are set.
            libc.malloc.restype = ctypes.c_void_p
            libc.malloc.argtypes = [ctypes.c_size_t]
            libc.free.argtypes = [ctypes.c_void_p]

    def keep(self, budget: int = sys.maxsize) -> None:
        """Keep freed memory from now on. Called before there are many threads.

        Args:
            budget: bytes that requests may hold.
        """
        if not self._libc:
            return
        is_small = budget <= SMALL_BUDGET
        most = budget // KEPT_PART if is_small else sys.maxsize
        several = min(MOST_HEAPS, HEAPS_PER_CPU * (os.cpu_count() or 1))
        self._number = FEW_HEAPS if is_small else max(FEW_HEAPS, several)
        self._most_free = min(most, MOST_FREE_BYTES)
        self._libc.mallopt(M_ARENA_MAX, self._number)
        # Once any threshold is set, glibc no longer adapts them to the freed blocks.
        self._largest_kept = min(most, LARGEST_KEPT_BYTES)
        self._libc.mallopt(M_MMAP_THRESHOLD, self._largest_kept)
        self._libc.mallopt(M_TRIM_THRESHOLD, self._most_free)

    @contextmanager
    def models_off_heap(self) -> Iterator[None]:
        """Suit the heaps to loads while a model is loaded.

        Blocks from `MODEL_BLOCK_BYTES` on come from the kernel, and small ones are merged at once.
        """
        with self._lock:
            self._loads += 1
            self._set_for_loads()
        try:
            yield
        finally:
            with self._lock:
                self._loads -= 1
                self._set_for_loads()

    def _set_for_loads(self) -> None:
        """Set the sizes that depend on loads, if freed memory is kept."""
        if self._largest_kept:
            most = MODEL_BLOCK_BYTES if self._loads else self._largest_kept
            self._libc.mallopt(M_MMAP_THRESHOLD, min(most, self._largest_kept))
            self._libc.mallopt(M_MXFAST, 0 if self._loads else SMALL_BLOCK_BYTES)

    def note_left(self, size: int) -> None:
        """Note bytes that a freed version has left in the heaps; give back where these are many."""
        with self._lock:
            self._left += max(0, size)
            if self._left < MOST_LEFT_BYTES:
                return
        self.give_back()

    def trim(self) -> None:
        """Return memory that is free between blocks. Blocking: 1 ms for a few megabytes."""
        if self._libc:
            self._libc.malloc_trim(0)

    def give_back(self) -> None:
        """Return all freed memory. Blocking, some milliseconds longer than `trim`."""
        if not self._libc:
            return
        with self._lock:
            self._left = 0
            if self._number:
                self._shorten()
            self.trim()

    def _shorten(self) -> None:
        self._libc.mallopt(M_TRIM_THRESHOLD, 0)
        try:
            self._in_each_heap()
        finally:
            self._libc.mallopt(M_TRIM_THRESHOLD, self._most_free)

    def _in_each_heap(self) -> None:
        # All threads must live at once: a new thread would reuse the heap of one that has ended.
        # None frees before all have started: a start maps a stack, and the kernel delays that
        # while memory is returned, with the interpreter held. `_thread` and `SimpleQueue` are
        # written in C; `Thread` and `Barrier` would need the interpreter several times more often.
        begin: TurnQueue = SimpleQueue()
        done: TurnQueue = SimpleQueue()
        end: TurnQueue = SimpleQueue()
        begun = 0
        try:
            while begun < ROUNDS * self._number:
                _thread.start_new_thread(self._free_a_block, (begin, done, end))
                begun += 1
        except RuntimeError:  # no more threads can be started: the other heaps stay as they are
            pass
        finally:
            for _ in range(begun):
                begin.put(None)
            _await(done, begun)
            for _ in range(begun):
                end.put(None)

    def _free_a_block(self, begin: TurnQueue, done: TurnQueue, end: TurnQueue) -> None:
        begin.get()
        self._libc.free(self._libc.malloc(SHORTENING_BYTES))
        done.put(None)
        end.get()


def _await(done: TurnQueue, number: int) -> None:
    """Wait for `number` entries, in all for at most `PATIENCE_S`."""
    until = time.monotonic() + PATIENCE_S
    with suppress(Empty):
        for _ in range(number):
            done.get(timeout=max(0.0, until - time.monotonic()))


HEAPS: Final = Heaps()
"""The heaps of this process."""
