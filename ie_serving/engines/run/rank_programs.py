"""Runs a signature with inputs of open rank: compiles a program for each combination of ranks.

Engines compile only for known ranks. Where ranks inside of the graph follow from sizes of 1, as
those of ONNX's `Squeeze` without axes do, these sizes count in place of the inputs' ranks.

The first request of a combination compiles its program in a thread; requests of the same
combination wait for it, and others go on. Only compiled programs take a slot among the kept
programs: combinations that the model refuses are recorded apart, so that requests with them evict
no other client's program. Evictions are limited in rate: otherwise a client that cycles through one
combination more than there are slots would cause a compilation for each of its requests.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import InvalidTensor, LoadFailed, QueueFull
from ie_serving.core.values.tensors import Array, Arrays, Read, Signature
from ie_serving.engines.run.program import RunnableSignature

T = TypeVar("T")
MORE = 2
"""Stands for every size above 1."""
RankForm = int | tuple[int, ...]
Ranks = tuple[Any, ...]
"""A `RankForm` for each open input; in `shape_programs.py`, the shapes of all."""
MakeProgram = Callable[[Ranks], RunnableSignature]
"""Compiles for ranks, one for each open input. Blocking. Raises: LoadFailed."""

MOST = 4
"""Combinations of ranks that are kept; the one that was used longest ago is freed for a new one.
Each takes about the memory of a model, and clients choose them, so their number has no other
bound."""

REST = 9.0
"""After a program has replaced another one, no program is replaced for `REST` times as
long as compiling it took: so compiling takes a tenth of the time at most. Until then requests of
other combinations are refused, and those of the programs that are kept are answered."""

MOST_REFUSED = 256
"""Combinations that could not be compiled and are refused without another try, some 500 bytes each;
beyond, the one that was noted first is forgotten."""

MOST_WAITING_RANKS = 8
"""Combinations that are being compiled or wait for it; a request of a further one is refused. Each
takes as long as a load, one after the other, and clients can send any number of combinations."""


def rank(array: Array) -> int:
    """Give the number of dimensions."""
    return array.ndim


def ones(array: Array) -> tuple[int, ...]:
    """Give the sizes; each above 1 is shown as `MORE`."""
    return tuple([min(size, MORE) for size in array.shape])


def _form_text(form: RankForm) -> str:
    if isinstance(form, int):
        return f"rank {form}"
    return f"sizes ({', '.join('more' if size == MORE else str(size) for size in form)})"


class _RankCombination:
    """One combination: its program, and how many requests use it or wait for it.

    Attributes:
        made: the program, or why there is none.
        arrived: the same as a future, for requests that wait on the event loop.
    """

    def __init__(self, made: "Future[RunnableSignature]") -> None:
        self.made = made
        self.arrived = asyncio.wrap_future(made)
        self.users = 0
        self.dropped = False


class OpenRankProgram:
    """Runs a signature of open ranks. See `engines.run.program.RunnableSignature`.

    Args of the constructor:
        signature: public signature.
        open_inputs: names of the inputs of open rank.
        make: gives the program for their ranks.
        clock: gives seconds.
        form: gives what is compiled for: the rank of an input, or its sizes of 1.

    Attributes:
        at_once, ahead: attributes of the program that was compiled last.
    """

    at_once = 1
    ahead = False

    def __init__(
        self,
        signature: Signature,
        open_inputs: Sequence[str],
        make: MakeProgram,
        clock: Callable[[], float] = time.monotonic,
        form: Callable[[Array], RankForm] = rank,
    ) -> None:
        self.signature = signature
        self._clock = clock
        self._rests_until = clock()
        self._open = open_inputs
        self._make = make
        self._form = form
        # The order is that of use: the ranks that were used longest ago come first.
        self._kept: dict[Ranks, _RankCombination] = {}
        self._compiling: dict[Ranks, _RankCombination] = {}
        self._refused: dict[Ranks, str] = {}
        # Seconds of compilations whose program has not arrived on the event loop yet.
        self._took_s: dict[Ranks, float] = {}
        # One: a single compilation uses all cores.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="rank")
        # Later compilations count for the record of the version that is loaded now.
        self._context = copy_context()

    async def infer(self, inputs: Arrays, read: Read[T]) -> T:
        """See `CompiledModel.infer`.

        Raises:
            InvalidTensor: the model cannot be compiled for these ranks.
            QueueFull: `MOST_WAITING_RANKS` other combinations are being compiled, or none may
                be given to another one yet.
        """
        ranks = tuple([self._form(inputs[name]) for name in self._open])
        kept = self._take(ranks)
        kept.users += 1
        try:
            return await (await self._program(kept, ranks)).infer(inputs, read)
        finally:
            kept.users -= 1
            self._free_if_unused(kept)

    def _take(self, ranks: Ranks) -> _RankCombination:
        kept = self._kept.pop(ranks, None)
        if kept is not None:
            self._kept[ranks] = kept
            return kept
        if ranks in self._refused:
            raise self._refusal(ranks, self._refused[ranks])
        return self._compiling.get(ranks) or self._begin(ranks)

    def _begin(self, ranks: Ranks) -> _RankCombination:
        if len(self._compiling) >= MOST_WAITING_RANKS:
            raise QueueFull(
                f"the model is being compiled for {MOST_WAITING_RANKS} other combinations of ranks"
                " of its inputs: send the request again later, and keep to a few ranks; those of"
                " warm-up records are compiled before the version serves"
            )
        rests_s = self._rests_until - self._clock()
        if rests_s > 0 and len(self._kept) + len(self._compiling) >= MOST:
            raise QueueFull(
                f"the model is kept compiled for {MOST} combinations of ranks of its inputs, and"
                f" another one may take the place of the oldest in {math.ceil(rests_s)} s: send the"
                f" request again then, and keep to {MOST} combinations"
            )
        made = self._threads.submit(self._context.run, self._timed, ranks)
        begun = self._compiling[ranks] = _RankCombination(made)
        # The callback runs even if no request waits for it by then.
        begun.arrived.add_done_callback(lambda _: self._arrived(ranks))
        return begun

    def _timed(self, ranks: Ranks) -> RunnableSignature:
        """Compile, and note how long that takes. In the thread that compiles."""
        since = self._clock()
        try:
            with SPARE_CPU.left():
                return self._make(ranks)
        finally:
            self._took_s[ranks] = self._clock() - since

    def _arrived(self, ranks: Ranks) -> None:
        """Keep the compiled program, in place of the least recently used one."""
        kept, took_s = self._compiling.pop(ranks, None), self._took_s.pop(ranks, 0.0)
        if kept is None:  # closed meanwhile
            return
        error = kept.arrived.exception()
        if error is None:
            self._kept[ranks] = kept
            program = kept.arrived.result()
            self.at_once, self.ahead = program.at_once, program.ahead
            self._drop_oldest(took_s)
        elif isinstance(error, LoadFailed):
            self._refused[ranks] = str(error)
            self._note_refused(took_s)
            if len(self._refused) > MOST_REFUSED:
                del self._refused[next(iter(self._refused))]

    def _note_refused(self, took_s: float) -> None:
        """Do nothing: how many ranks there are has a bound."""

    def _rest(self, took_s: float) -> None:
        self._rests_until = max(self._rests_until, self._clock()) + REST * took_s

    def _drop_oldest(self, took_s: float) -> None:
        """Free the oldest where there are too many, and no other one until compiling has rested."""
        if len(self._kept) > MOST:
            oldest = self._kept.pop(next(iter(self._kept)))
            oldest.dropped = True
            self._rest(took_s)
            self._free_if_unused(oldest)

    async def _program(self, kept: _RankCombination, ranks: Ranks) -> RunnableSignature:
        try:
            if kept.arrived.done():
                return kept.arrived.result()
            # Shielded: other requests may wait for the compilation that a cancelled one began.
            return await asyncio.shield(kept.arrived)
        except LoadFailed as error:
            raise self._refusal(ranks, str(error)) from error

    def _refusal(self, ranks: Ranks, why: str) -> InvalidTensor:
        shown = " and ".join(
            f'"{name}" of {_form_text(form)}' for name, form in zip(self._open, ranks, strict=True)
        )
        return InvalidTensor(f"no input {shown} can be taken: {why}")

    def _free_if_unused(self, kept: _RankCombination) -> None:
        if kept.dropped and not kept.users:
            self._threads.submit(_close, kept.made)

    def close(self) -> None:
        """Free every program. Blocks until the running compilation is done."""
        for kept in (*self._kept.values(), *self._compiling.values()):
            self._threads.submit(_close, kept.made)
        self._kept.clear()
        self._compiling.clear()
        self._threads.shutdown()


def _close(made: "Future[RunnableSignature]") -> None:
    """Close the programs in the compiling thread, hence after the last compilation."""
    if made.exception() is None:
        with SPARE_CPU.left():
            made.result().close()
