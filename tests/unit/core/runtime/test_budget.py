"""The budget of bytes comes back to nothing, whatever happens to those who hold some."""

import gc
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ie_serving.core.runtime.budget import SMALL, Budget, Lease, leased
from ie_serving.core.values.errors import QueueFull, RequestTooLarge

LIMIT = 1000
SIZES = st.integers(0, 400)


class Histories(RuleBasedStateMachine):
    """Leases that are taken, raised, lowered, released, forgotten, or put into memory."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(LIMIT)
        self.leases: list[Lease] = []
        self.views: list[tuple[memoryview, int]] = []

    @rule(size=SIZES)
    def take(self, size: int) -> None:
        fits = self.budget.held + size <= LIMIT
        try:
            self.leases.append(self.budget.lease(size))
        except QueueFull:
            assert not fits
        else:
            assert fits

    @rule(size=SIZES)
    def take_more(self, size: int) -> None:
        if self.leases:
            before = self.leases[0].size
            try:
                self.leases[0].take(size)
            except QueueFull:
                assert self.leases[0].size == before

    @rule(part=st.floats(0, 1))
    def give_some(self, part: float) -> None:
        if self.leases:
            self.leases[0].give(int(self.leases[0].size * part))

    @rule(times=st.integers(1, 2))
    def release(self, times: int) -> None:
        if self.leases:
            lease = self.leases.pop()
            for _ in range(times):
                lease.release()

    @rule()
    def forget(self) -> None:
        if self.leases:
            self.leases.pop(0)

    @rule()
    def put_into_memory(self) -> None:
        if self.leases:
            lease = self.leases.pop()
            size = lease.size
            view = np.frombuffer(leased(8, lease).data, np.uint16).data  # as the codecs take it
            self.views.append((view, size))

    @rule()
    def forget_memory(self) -> None:
        if self.views:
            self.views.pop()

    @invariant()
    def held_is_what_there_is(self) -> None:
        known = sum(lease.size for lease in self.leases) + sum(size for _, size in self.views)
        assert self.budget.held == known <= LIMIT

    def teardown(self) -> None:
        self.leases.clear()
        self.views.clear()
        assert self.budget.held == 0


Histories.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestHistories = Histories.TestCase


def test_a_size_that_never_fits_is_told_apart_from_one_that_fits_later() -> None:
    budget = Budget(LIMIT)
    with pytest.raises(RequestTooLarge, match="1001 bytes"):
        budget.lease(LIMIT + 1)
    kept = budget.lease(LIMIT)
    with pytest.raises(QueueFull, match=r"1000 of at most 1000 bytes.*later"):
        budget.lease(1)
    kept.release()
    assert budget.lease(LIMIT).size == LIMIT


def test_small_memory_is_not_counted() -> None:
    budget = Budget()
    small, large = budget.memory(SMALL - 1), budget.memory(SMALL)
    assert (len(small), len(large), budget.held) == (SMALL - 1, SMALL, SMALL)


def test_leases_that_end_in_threads_and_in_the_garbage_collector_are_counted() -> None:
    budget = Budget()

    def work() -> None:
        for _ in range(2000):
            ring: list[object] = [budget.lease(1)]
            ring.append(ring)  # the collector alone ends it

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert (budget.held, budget.taken) == (0, 8000)
