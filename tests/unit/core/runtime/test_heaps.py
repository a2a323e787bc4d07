"""Freed memory goes back to the kernel, also what lies at the end of a thread's own heap."""

import _thread
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ie_serving.core.runtime import heaps
from ie_serving.core.runtime.heaps import (
    FEW_HEAPS,
    KEPT_PART,
    LARGEST_KEPT_BYTES,
    MODEL_BLOCK_BYTES,
    MOST_FREE_BYTES,
    MOST_LEFT_BYTES,
    SMALL_BLOCK_BYTES,
    Heaps,
)
from tests.process import output_of

THREADS = """
import threading
from ie_serving.core.runtime.heaps import HEAPS, resident_bytes

HEAPS.keep()
freed, over = threading.Barrier(5), threading.Event()

def work():
    pieces = [bytes([at % 256]) * 100_000 for at in range(400)]  # written, so it is resident
    pieces.clear()
    freed.wait(20)
    over.wait(20)  # its heap is still its own, as that of a thread of a pool

before = resident_bytes()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
freed.wait(20)
kept = resident_bytes()
HEAPS.give_back()
left = resident_bytes()
over.set()
print(kept - before >> 20, left - before >> 20)
"""


def test_memory_that_threads_of_a_pool_have_freed_goes_back() -> None:
    kept, left = map(int, output_of(sys.executable, "-c", THREADS)[-1].split())
    assert kept > 50
    assert left < 10


@pytest.fixture
def set_to(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Replace the C library; what its parameters are set to."""
    found: dict[int, int] = {}
    libc = SimpleNamespace(malloc_trim=lambda pad: None, mallopt=found.__setitem__)
    libc.malloc, libc.free = (lambda size: None), (lambda block: None)
    monkeypatch.setattr(heaps.ctypes, "CDLL", lambda name: libc)
    return found


def test_a_small_budget_has_few_heaps_that_keep_little(set_to: dict[int, int]) -> None:
    Heaps().keep(64 << 20)
    assert set_to[heaps.M_ARENA_MAX] == FEW_HEAPS
    assert set_to[heaps.M_TRIM_THRESHOLD] == (64 << 20) // KEPT_PART


def test_models_are_kept_out_of_the_heaps_while_any_is_loaded(set_to: dict[int, int]) -> None:
    kept = Heaps()
    with kept.models_off_heap():
        assert set_to == {}, "freed memory is not kept"
    kept.keep()
    with kept.models_off_heap():
        with kept.models_off_heap():
            pass
        assert set_to[heaps.M_MMAP_THRESHOLD] == MODEL_BLOCK_BYTES
        assert set_to[heaps.M_MXFAST] == 0, "freed blocks of a compilation are merged once"
    assert set_to[heaps.M_MMAP_THRESHOLD] == LARGEST_KEPT_BYTES
    assert set_to[heaps.M_MXFAST] == SMALL_BLOCK_BYTES
    few = Heaps()
    few.keep(32 << 20)
    with few.models_off_heap():
        assert set_to[heaps.M_MMAP_THRESHOLD] == (32 << 20) // KEPT_PART, "that is less already"


MODEL = """
import ctypes
from ie_serving.core.runtime.heaps import HEAPS, resident_bytes

HEAPS.keep()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
with HEAPS.models_off_heap():
    blocks = [libc.malloc(8 << 20) for _ in range(8)]
for block in blocks:
    libc.memset(block, 1, 8 << 20)
whole = resident_bytes()
for block in blocks[1:]:  # the first stays
    libc.free(block)
print((whole - resident_bytes()) >> 20)
"""


def test_a_model_that_is_freed_goes_back_at_once() -> None:
    assert int(output_of(sys.executable, "-c", MODEL)[-1]) >= 55


def test_memory_is_kept_again_where_no_thread_is_to_be_had(
    set_to: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    kept = Heaps()
    kept.keep()
    monkeypatch.setattr(_thread, "start_new_thread", fail)
    kept.give_back()
    assert set_to[heaps.M_TRIM_THRESHOLD] == MOST_FREE_BYTES


def test_threads_that_have_started_are_let_go_where_there_are_no_more(
    set_to: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    start, alive = _thread.start_new_thread, []
    ended = threading.Semaphore(0)

    def fail_at_third(work: Any, given: Any) -> None:
        if len(alive) == 2:
            raise RuntimeError("can't start new thread")
        alive.append(start(lambda: (work(*given), ended.release()), ()))

    kept = Heaps()
    kept.keep()
    monkeypatch.setattr(_thread, "start_new_thread", fail_at_third)
    kept.give_back()
    assert all(ended.acquire(timeout=20) for _ in alive)


def test_only_much_that_freed_models_have_left_is_given_back(
    set_to: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    monkeypatch.setattr(_thread, "start_new_thread", lambda *given: begun.append(given))
    monkeypatch.setattr(heaps, "PATIENCE_S", 0.0)
    kept = Heaps()
    kept.keep()
    for left in (MOST_LEFT_BYTES - 2, -MOST_LEFT_BYTES, 1):
        kept.note_left(left)
    assert not begun
    kept.note_left(1)
    assert begun
    begun.clear()
    kept.note_left(MOST_LEFT_BYTES - 1)
    assert not begun


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heaps.ctypes, "CDLL", lambda name: SimpleNamespace())
    other = Heaps()
    other.keep()
    other.give_back()
