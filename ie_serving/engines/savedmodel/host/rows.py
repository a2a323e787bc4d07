"""Runs the turns of a loop in several threads, where none depends on another: `tf.map_fn`.

Such a loop counts, and sets one element of a list in each turn:

    i -> AddV2(i, 1),  list -> TensorListSetItem(list, i, what a turn computes),  others as they are

Pillow and numpy let other threads run while they decode and resize images, so the rows of a batch
take as many processors as there are. TensorFlow runs ten turns at a time.
"""

import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.engines.savedmodel.host.allowance import turn
from ie_serving.engines.savedmodel.host.attributes import Program
from ie_serving.engines.savedmodel.host.host_program import THREADS, Function, HostStep
from ie_serving.engines.savedmodel.host.tensor_list import LoopList, TensorList


@dataclass(frozen=True)
class Rows:
    """A loop of that kind.

    Attributes:
        body: what a turn runs.
        counters: which of its arguments count.
        lists: which are lists, with the counter of each.
    """

    body: Function
    counters: Sequence[int]
    lists: Mapping[int, int]

    def run(self, state: list[Any], holds: Callable[[list[Any]], bool]) -> list[Any] | None:
        """Run all turns.

        Args:
            state: the arguments before the first turn.
            holds: tells for those of a turn whether there is one.

        Returns:
            The arguments behind the last turn; None where one sets an element that its list lacks.
        """
        last, counts = list(state), list[list[Any]]()
        while holds(last):
            turn()
            counts.append([last[at] for at in self.counters])
            for at in self.counters:
                last[at] = np.asarray(last[at] + last[at].dtype.type(1))
        places = {
            at: [int(each[self.counters.index(counter)]) for each in counts]
            for at, counter in self.lists.items()
        }
        if any(not 0 <= at < len(state[key].items) for key, own in places.items() for at in own):
            return None
        parts = self._run_turns(state, counts)
        for at, own in places.items():
            items = list(state[at].items)
            for place in own:
                set_by = (part[at].items[place] for part in parts)
                items[place] = next((each for each in set_by if each is not items[place]), None)
            last[at] = TensorList(items)
        return [
            TensorList(value.items) if isinstance(value, TensorList) else value for value in last
        ]

    def _run_turns(self, state: Sequence[Any], counts: Sequence[list[Any]]) -> list[list[Any]]:
        """Run turns; give the arguments of each thread behind its last one."""
        waiting, failures = iter(enumerate(counts)), dict[int, Exception]()
        parts = [self._part(state) for _ in range(max(min(THREADS, len(counts)), 1))]
        done = [
            _threads().submit(contextvars.copy_context().run, self._take, part, waiting, failures)
            for part in parts[1:]
        ]
        self._take(parts[0], waiting, failures)
        for future in done:
            if not future.cancel():  # what no thread has begun has nothing left to do
                future.result()
        if failures:
            raise failures[min(failures)]
        return parts

    def _part(self, state: Sequence[Any]) -> list[Any]:
        """Give arguments for one thread, which has lists of its own."""
        return [
            LoopList(list(value.items)) if at in self.lists else value
            for at, value in enumerate(state)
        ]

    def _take(
        self,
        state: list[Any],
        waiting: Iterator[tuple[int, Sequence[Any]]],
        failures: dict[int, Exception],
    ) -> None:
        """Run the turns that no other thread has taken, in order, until one has failed."""
        for number, values in waiting:
            for at, value in zip(self.counters, values, strict=True):
                state[at] = value
            try:
                turn(0)
                state[:] = self.body(state)
            except Exception as error:
                failures[number] = error
            if failures:
                return


def rows_of(goes_on: Program, body: Program) -> Rows | None:
    """Tell whether the turns of a loop depend on each other only by what they count.

    A loop without a step that takes long is none of these: threads would only take turns.
    """
    if not isinstance(goes_on, Function) or not isinstance(body, Function):
        return None
    held = dict(body.filled)
    makers = {slot: step for step in body.plan.before for _, slot in step.results}
    counters: list[int] = []
    lists: dict[int, HostStep] = {}
    for at, slot in enumerate(body.returned):
        step = makers.get(slot)
        if slot == held.get(at):
            continue
        if step is not None and _counts(step, held.get(at), body):
            counters.append(at)
        elif step is not None and _sets(step, held.get(at), body):
            lists[at] = step
        else:
            return None
    by_slot = {held[at]: at for at in counters}
    found = {at: by_slot.get(step.sources[1], -1) for at, step in lists.items()}
    reads_lists = {at for at, _ in goes_on.filled} & lists.keys()
    if not lists or -1 in found.values() or reads_lists:
        return None
    if not any(step.in_thread for step in body.plan.before):
        return None
    return Rows(body, counters, found)


def _counts(step: HostStep, argument: int | None, body: Function) -> bool:
    if step.operation not in ("Add", "AddV2") or argument not in step.sources:
        return False
    other = [slot for slot in step.sources if slot != argument]
    value = body.plan.slots[other[0]] if len(other) == 1 else None
    return isinstance(value, np.ndarray) and value.ndim == 0 and value == 1


def _sets(step: HostStep, argument: int | None, body: Function) -> bool:
    read = [slot for each in body.plan.before for slot in each.sources]
    made = {slot for _, slot in step.results}
    return (
        step.operation == "TensorListSetItem"
        and step.sources[0] == argument
        and read.count(argument) == 1
        and made.isdisjoint(read)
    )


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "rows", initializer=SPARE_CPU.settle)
