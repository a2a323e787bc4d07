"""Chooses with how many threads PyTorch computes a model's requests: one, or all."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Generic, TypeVar

from ie_serving.core.values.tensors import Arrays

CALLS = 12
"""Requests that are measured with each number of threads."""
COUNTED = 8
"""Last runs that count: the first optimize TorchScript, and fill the library's caches."""

T = TypeVar("T")


class ChosenThreads(Generic[T]):
    """Computes the first requests with all threads, the next with one, then as was faster.

    Each thread that calls PyTorch has threads of its own to share an operation with (OpenMP). If
    they are more than the CPUs, they sleep between operations, and to wake them takes longer than
    the operations of a small model: Silero VAD takes 2.0 ms with two threads and 0.25 ms with one.

    Requests of the first one's size are measured, and the choice holds for these and smaller ones.
    Larger requests have all threads.

    Any thread may call.

    Args of the constructor:
        torch: the library.
        compute: computes a request.
        most: threads.
    """

    def __init__(self, torch: Any, compute: Callable[[Arrays], T], most: int) -> None:  # noqa: ANN401
        self._torch = torch
        self._compute = compute
        self._most = most
        self._size = -1
        self._took_s: dict[int, list[float]] = {most: [], 1: []}
        self.chosen = most if most == 1 else None

    def __call__(self, given: Arrays) -> T:
        """Compute a request."""
        size = sum(array.size for array in given.values())
        if self._size < 0:
            self._size = size
        if self.chosen and size <= self._size:
            return self._computed(given, self.chosen)
        if size != self._size:
            return self._computed(given, self._most)
        count = self._measured()
        began = time.perf_counter()
        found = self._computed(given, count)
        self._note(count, time.perf_counter() - began)
        return found

    def _computed(self, given: Arrays, count: int) -> T:
        # The number is one of the calling thread. Setting it empties caches of the library.
        if self._torch.get_num_threads() != count:
            self._torch.set_num_threads(count)
        return self._compute(given)

    def _measured(self) -> int:
        return next((each for each, took in self._took_s.items() if len(took) < CALLS), 1)

    def _note(self, count: int, took_s: float) -> None:
        self._took_s[count].append(took_s)
        if min(map(len, self._took_s.values())) >= CALLS:
            self.chosen = min(self._took_s, key=lambda each: _typical(self._took_s[each]))


def _typical(took_s: Sequence[float]) -> float:
    return median(took_s[-COUNTED:])
