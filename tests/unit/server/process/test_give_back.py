"""Memory goes back to the kernel after large requests, and not between them."""

import sys

import pytest

from ie_serving.core.runtime.budget import Budget
from ie_serving.core.runtime.heaps import SMALL_BUDGET
from ie_serving.server.process.garbage import MOST_HEAP_LOOKS, WORTH_RETURNING, give_back
from tests.process import output_of
from tests.unit.server.process.looks import Paced

KEEPS = """
import asyncio, gc, re
from pathlib import Path
from ie_serving.core.runtime.budget import BUDGET
from ie_serving.server.process.garbage import give_back
from ie_serving.core.runtime.heaps import HEAPS

def resident():
    return int(re.findall(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[0]) // 1024

async def main():
    HEAPS.keep()
    giving_back = asyncio.create_task(give_back(pause=lambda: asyncio.sleep(0.01)))
    await asyncio.sleep(0)
    before = resident()
    lease = BUDGET.lease(200 << 20)
    pieces = [bytes([at % 256]) * 100_000 for at in range(2000)]  # written, so it is resident
    pins = [*pieces[::200], pieces[-1]]
    del pieces[:], lease
    kept = resident()
    for _ in range(500):
        await asyncio.sleep(0.01)
        if resident() - before < 20:
            break
    print(kept - before, resident() - before)

asyncio.run(main())
"""


def test_memory_that_large_requests_leave_is_given_back() -> None:
    """200 MB of blocks that glibc keeps, with some in use between and above them."""
    kept, left = map(int, output_of(sys.executable, "-c", KEEPS)[-1].split())
    assert kept > 100
    assert left < 20


class Looks(Paced):
    """Lets the server look when the test says so, and counts how often it gives memory back."""

    def __init__(self, limit: int = sys.maxsize, resident: int = 100) -> None:
        self.budget = Budget(limit)
        self.trims = 0
        self.resident = resident
        super().__init__(
            lambda pause: give_back(self.budget, pause, self._trim, lambda: self.resident)
        )

    def _trim(self) -> None:
        self.trims += 1


@pytest.mark.parametrize(
    ("taken", "expected"), [(WORTH_RETURNING - 1, 0), (WORTH_RETURNING, 1)], ids=["little", "much"]
)
async def test_memory_is_given_back_once_after_large_work(taken: int, expected: int) -> None:
    looks = Looks()
    await looks.look()
    looks.budget.lease(taken)
    await looks.look()
    assert looks.trims == 0  # more may come
    for _ in range(MOST_HEAP_LOOKS + 2):
        await looks.look()
    assert looks.trims == expected
    looks.end()


@pytest.mark.parametrize(
    ("budget", "expected"),
    [((), (*[0] * MOST_HEAP_LOOKS, 1)), ((SMALL_BUDGET,), (1, 2))],
    ids=["at the latest after some looks", "with a small budget while more comes"],
)
async def test_large_requests_that_never_cease_do_not_keep_what_a_burst_has_left(
    budget: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """It lies beside what comes next, and a small container holds no more than both."""
    looks = Looks(*budget)
    await looks.look()
    for trims in expected:
        looks.budget.lease(WORTH_RETURNING)
        await looks.look()
        assert looks.trims == trims
    looks.end()


@pytest.mark.parametrize(("resident", "expected"), [(114, 1), (116, 2)], ids=["little", "much"])
async def test_little_memory_stays_for_the_next_request(resident: int, expected: int) -> None:
    """Compared with what was resident after memory was given back last."""
    looks = Looks()
    await looks.look()
    for each in (100, resident):
        looks.resident = each
        looks.budget.lease(WORTH_RETURNING)
        await looks.look()
        looks.resident = each
        await looks.look()
    assert looks.trims == expected
    looks.end()
