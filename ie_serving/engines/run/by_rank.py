"""A signature with inputs of open rank: a program for each combination of ranks that is asked for.

Engines compile for ranks that are known. The first request of a combination compiles for it, in a
thread; requests of the same combination wait for that, and those of others go on meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ie_serving.core.errors import InvalidTensor, LoadFailed
from ie_serving.core.tensors import Array, Signature
from ie_serving.engines.run.program import Read, Runs

T = TypeVar("T")
Ranks = tuple[int, ...]
Make = Callable[[Ranks], Runs]
"""Compiles for ranks, one for each open input. Blocking. Raises: LoadFailed."""

MOST = 4
"""Combinations of ranks that are kept; the one that was used longest ago is freed for a new one.
Each takes about the memory of a model, and clients choose them, so their number has no other
bound."""


class _Kept:
    """One combination: its program, or why there is none, and how many requests use it."""

    def __init__(self, made: "Future[Runs]") -> None:
        self.made = made
        self.users = 0
        self.dropped = False


class ByRank:
    """Runs a signature of open ranks. See `engines.run.program.Runs`.

    Args of the constructor:
        signature: as clients see it.
        open_inputs: names of the inputs of open rank.
        make: gives the program for their ranks.
    """

    def __init__(self, signature: Signature, open_inputs: Sequence[str], make: Make) -> None:
        self.signature = signature
        self._open = open_inputs
        self._make = make
        # By ranks, the one that was used longest ago first.
        self._kept: dict[Ranks, _Kept] = {}
        # One: compiling takes all cores by itself.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="rank")

    async def infer(self, inputs: Mapping[str, Array], read: Read[T]) -> T:
        """See `CompiledModel.infer`.

        Raises:
            InvalidTensor: the model cannot be compiled for these ranks.
        """
        ranks = tuple([inputs[name].ndim for name in self._open])
        kept = self._take(ranks)
        kept.users += 1
        try:
            return await (await self._program(kept, ranks)).infer(inputs, read)
        finally:
            kept.users -= 1
            self._free_if_unused(kept)

    def _take(self, ranks: Ranks) -> _Kept:
        kept = self._kept.pop(ranks, None) or _Kept(self._threads.submit(self._make, ranks))
        self._kept[ranks] = kept
        if len(self._kept) > MOST:
            oldest = self._kept.pop(next(iter(self._kept)))
            oldest.dropped = True
            self._free_if_unused(oldest)
        return kept

    async def _program(self, kept: _Kept, ranks: Ranks) -> Runs:
        try:
            if kept.made.done():
                return kept.made.result()
            # Shielded: others may wait for what a cancelled request has begun.
            return await asyncio.shield(asyncio.wrap_future(kept.made))
        except LoadFailed as error:
            shown = " and ".join(
                f'"{name}" of rank {rank}' for name, rank in zip(self._open, ranks, strict=True)
            )
            raise InvalidTensor(f"no input {shown} can be taken: {error}") from error

    def _free_if_unused(self, kept: _Kept) -> None:
        if kept.dropped and not kept.users:
            self._threads.submit(_close, kept.made)

    def close(self) -> None:
        """Free every program. Blocking, until what is being compiled is done."""
        for kept in self._kept.values():
            self._threads.submit(_close, kept.made)
        self._kept.clear()
        self._threads.shutdown()


def _close(made: "Future[Runs]") -> None:
    """Close what was made; in the thread that makes, so after it."""
    if made.exception() is None:
        made.result().close()
