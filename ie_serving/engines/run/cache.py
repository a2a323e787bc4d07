"""Caches recent outputs by their inputs, of a graph's `cache_ms` and a model's response cache."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from hashlib import blake2b
from typing import Any

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import QueueFull, RequestTooLarge, ServingError
from ie_serving.core.values.tensors import Array, Arrays
from ie_serving.engines.run.program import INFER_THREADS

MOST_KEPT = 256
"""Outputs that one step or graph keeps; those least recently given go first."""

MOST_ON_LOOP = 256 * 1024
"""Bytes whose digest is made on the event loop, in 0.25 ms; the digest of more takes a thread."""
MOST_TEXTS = 1000
"""Texts whose digest is made on the event loop; more take a thread."""


class OutputCache:
    """Outputs by the inputs that they belong to. Lives on one event loop.

    Args of the constructor:
        seconds: seconds for which outputs are given.
        clock: gives seconds.
        most_bytes: bytes of outputs that are kept; None: `MOST_KEPT` answers of any size.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int | None = None,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: dict[bytes, tuple[float, Arrays, Lease]] = {}
        self._computed: dict[bytes, asyncio.Future[Arrays]] = {}

    async def get(
        self, whose: str, inputs: Arrays, compute: Callable[[], Coroutine[Any, Any, Arrays]]
    ) -> Arrays:
        """Give the cached outputs of these inputs, or compute them once for concurrent callers.

        Args:
            whose: the model with its versions; answers of others are not given.
            inputs: inputs of the request.
            compute: begins the work.

        Raises:
            ServingError: of the work; it is not cached, but all waiting callers get it.
        """
        key = await _digest(whose, inputs)
        while True:
            kept = self._kept.get(key)
            if kept and kept[0] > self._clock():
                self._kept[key] = self._kept.pop(key)  # the last to go now
                return kept[1]
            other = self._computed.get(key)
            if other is None:
                return await self._compute(key, compute())
            # The work is waited for, not awaited: a cancelled caller must not cancel it.
            await asyncio.wait((other,))
            if not other.cancelled():  # otherwise computed anew, for a client that has stayed
                return other.result()

    def close(self) -> None:
        """Let go of everything that is kept."""
        self._kept.clear()
        self._bytes = 0

    async def _compute(self, key: bytes, work: Coroutine[Any, Any, Arrays]) -> Arrays:
        done = self._computed[key] = asyncio.get_running_loop().create_future()
        try:
            items = await work
        except ServingError as error:
            done.set_exception(error)
            done.exception()  # otherwise asyncio logs it where no caller waits
            raise
        except BaseException:
            done.cancel()  # of a client that has gone: the next one that waits computes it
            raise
        finally:
            del self._computed[key]
        self._keep(key, items)
        done.set_result(items)
        return items

    def _keep(self, key: bytes, items: Arrays) -> None:
        now = self._clock()
        if self._most_bytes is None:
            for old in [each for each, (until, _, _) in self._kept.items() if until <= now]:
                self._drop(old)
        if key in self._kept:
            self._drop(key)
        size = _held_bytes(items)
        if self._most_bytes is not None and size > self._most_bytes:
            return
        while self._kept and self._is_full(size):
            self._drop(next(iter(self._kept)))
        try:
            lease = BUDGET.lease(size)
        except (QueueFull, RequestTooLarge):
            return  # requests need the memory: this one's answer is not kept
        self._kept[key] = (now + self._seconds, items, lease)
        self._bytes += size

    def _is_full(self, more: int) -> bool:
        if self._most_bytes is None:
            return len(self._kept) >= MOST_KEPT
        return self._bytes + more > self._most_bytes

    def _drop(self, key: bytes) -> None:
        _, items, _ = self._kept.pop(key)
        self._bytes -= _held_bytes(items)


def _held_bytes(items: Arrays) -> int:
    arrays = [array.reshape(-1) for array in items.values()]
    texts = sum(len(text) for each in arrays if each.dtype.kind == "O" for text in each)
    return texts + sum(each.nbytes for each in arrays)


async def _digest(whose: str, inputs: Arrays) -> bytes:
    if sum(_size(array) for array in inputs.values()) <= MOST_ON_LOOP:
        return _digested(whose, inputs)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(INFER_THREADS, _digested, whose, inputs)


def _size(array: Array) -> int:
    if array.dtype.kind != "O":
        return array.nbytes
    # Very many texts count as large: summing their lengths would take as long as a small digest.
    return MOST_ON_LOOP + 1 if array.size > MOST_TEXTS else sum(map(len, array.reshape(-1)))


def _digested(whose: str, inputs: Arrays) -> bytes:
    found = blake2b(whose.encode(), digest_size=16)
    for name, array in sorted(inputs.items()):
        found.update(f"{name} {array.dtype} {array.shape} ".encode())
        for piece in _pieces(array):
            found.update(piece)
    return found.digest()


def _pieces(array: Array) -> Iterable[bytes | memoryview]:
    if array.dtype.kind != "O":
        yield array.tobytes() if not array.flags.c_contiguous else array.reshape(-1).view("u1").data
        return
    for each in array.reshape(-1):
        yield b"%d " % len(each)
        yield each
