"""The number of PyTorch's threads is the one that computed a model's first requests faster."""

import threading
import time

import numpy as np
import pytest

from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.pytorch.threads_choice import CALLS, ChosenThreads

ALL = 4


def rows(count: int, value: int = 0) -> Arrays:
    return {"x": np.full((count, 2), value)}


class Library(threading.local):
    """Counts as PyTorch does: for each thread; a new one has what was set last."""

    last = ALL
    count = 0
    sets = 0

    def get_num_threads(self) -> int:
        return self.count or Library.last

    def set_num_threads(self, count: int) -> None:
        self.count = Library.last = count
        Library.sets += 1


@pytest.fixture
def library() -> Library:
    Library.last, Library.sets = ALL, 0
    return Library()


@pytest.mark.parametrize("fast", [1, ALL])
def test_the_faster_number_stays(library: Library, fast: int) -> None:
    def compute(given: Arrays) -> tuple[int, int]:
        time.sleep(0.0 if library.get_num_threads() == fast else 0.003)
        return int(given["x"][0, 0]), library.get_num_threads()

    choice = ChosenThreads(library, compute, ALL)
    used = [choice(rows(8, number)) for number in range(2 * CALLS)]
    assert [number for number, _ in used] == list(range(2 * CALLS))
    assert [count for _, count in used] == [ALL] * CALLS + [1] * CALLS
    assert choice.chosen == fast
    sets = Library.sets
    assert {choice(rows(count, 7)) for count in (8, 8, 1, 3)} == {(7, fast)}
    assert Library.sets - sets == (fast != 1)
    assert choice(rows(9, 7)) == (7, ALL)


def test_requests_of_other_sizes_are_not_measured(library: Library) -> None:
    choice = ChosenThreads(library, lambda _: library.get_num_threads(), ALL)
    for _ in range(CALLS):
        assert {choice(rows(8)), choice(rows(1)), choice(rows(9))} == {ALL}
    assert choice.chosen is None
    assert (choice(rows(8)), choice(rows(1)), choice(rows(9))) == (1, ALL, ALL)


def test_each_thread_computes_with_the_chosen_number(library: Library) -> None:
    choice = ChosenThreads(library, lambda _: library.get_num_threads(), ALL)
    choice(rows(1))
    choice.chosen = 1
    Library.last = ALL  # another model's
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(choice(rows(1))))
    thread.start()
    thread.join(10)
    assert found == [1]


def test_a_request_that_fails_is_not_measured(library: Library) -> None:
    def compute(given: Arrays) -> None:
        if given["x"].any():
            raise ValueError

    choice = ChosenThreads(library, compute, ALL)
    for _ in range(3 * CALLS):
        with pytest.raises(ValueError, match=r"^$"):
            choice(rows(1, 1))
    assert choice.chosen is None
    for _ in range(2 * CALLS):
        choice(rows(1))
    assert choice.chosen in {1, ALL}


def test_a_single_thread_is_no_choice(library: Library) -> None:
    choice = ChosenThreads(library, lambda given: len(given["x"]), 1)
    assert (choice.chosen, choice(rows(3)), library.get_num_threads()) == (1, 3, 1)
