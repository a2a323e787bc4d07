"""Kernels of loops and branches, and of the lists of tensors that `tf.map_fn` keeps in them.

`RowLoop` runs the turns of a loop in several threads where none depends on another, as in
`tf.map_fn`. Such a loop counts, and sets one element of a list in each turn:

    i -> AddV2(i, 1),  list -> TensorListSetItem(list, i, what a turn computes),  others as they are

Pillow and numpy let other threads run while they decode and resize images, so the rows of a batch
take as many processors as there are. TensorFlow runs ten turns at a time.
"""

import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.file import VARIANT
from ie_serving.engines.savedmodel.host.allowance import make_room, turn
from ie_serving.engines.savedmodel.host.host_kernel import (
    INTEGER,
    Attributes,
    Compute,
    HostKernel,
    Output,
    RunBody,
    in_thread,
    plain,
)
from ie_serving.engines.savedmodel.host.host_program import THREADS, Function, HostStep
from ie_serving.engines.savedmodel.host.index_checks import in_range
from ie_serving.engines.savedmodel.host.needs import FUNCTIONS
from ie_serving.engines.savedmodel.host.tensor_list import LISTS, LoopList, TensorList
from ie_serving.wire.protobuf.messages import Proto

_OF_LIST = Output("element_dtype")
_LIST = Output("", None)
_JOINED = (
    Output("element_dtype", name="tensor"),
    Output("", DataType.INT64, "lengths"),
)


def gives_list(node: Proto, position: int | None = None) -> bool:
    """Tell whether a node gives a list of tensors, as its output `position` or as any."""
    if node.op not in FUNCTIONS:
        return node.op in LISTS
    types = node.attr[KERNELS[node.op].outputs[0].attribute].list.type
    return VARIANT in (types if position is None else types[position : position + 1])


def _stack(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("element_dtype").numpy
    return lambda held, shape: _stacked(held.items, shape, dtype)


def _gather(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("element_dtype").numpy
    return lambda held, indices, shape: _stacked(
        [held.get(index, shape) for index in indices], shape, dtype
    )


def _stacked(items: Sequence[Any], shape: Array, dtype: "np.dtype[Any]") -> Array:
    if any(item is None for item in items):
        raise InvalidRequest("Trying to stack uninitialized elements of a list")
    if items:
        _make_room_for(items)
        return np.stack(tuple(items))
    sizes = [int(size) for size in np.ravel(shape)]
    if -1 in sizes:
        raise InvalidRequest("Tried to stack elements of an empty list with an open shape")
    return np.empty((0, *sizes), dtype)


def _make_room_for(items: Sequence[Array]) -> None:
    """Count the memory of joined elements: one element may be in a list many times."""
    each = {id(item): item.nbytes for item in items}
    make_room((sum(item.nbytes for item in items) - sum(each.values()),), np.uint8)


def _concat(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("element_dtype").numpy

    def compute(held: TensorList, shape: Array, _: Array) -> list[Array]:
        items = held.items
        if any(item is None or not item.ndim for item in items):
            raise InvalidRequest("Trying to concat scalars or uninitialized elements of a list")
        if not items:
            return [_nothing(shape, dtype), np.empty(0, np.int64)]
        _make_room_for(items)
        return [np.concatenate(tuple(items)), np.array([len(item) for item in items], np.int64)]

    return compute


def _nothing(shape: Array, dtype: "np.dtype[Any]") -> Array:
    """Join no elements, whose sizes but the first must be known."""
    sizes = [int(size) for size in np.ravel(shape)[1:]]
    if not shape.ndim or -1 in sizes:
        raise InvalidRequest("Tried to concat elements of an empty list with an open shape")
    return np.empty((0, *sizes), dtype)


def _split(attributes: Attributes) -> Compute:
    grows = attributes.flag("resize_if_index_out_of_bounds")

    def compute(
        value: Array, _: Array, lengths: Array, before: TensorList | None = None
    ) -> TensorList:
        if lengths.ndim != 1 or not value.ndim or (lengths < 0).any():
            raise InvalidRequest("Expected lengths to be a vector of sizes, and a value with rows")
        if lengths.sum(dtype=object) != len(value):
            raise InvalidRequest(
                f"Expected lengths to add up to the {len(value)} rows of the value"
            )
        if before is not None and not grows and len(lengths) != len(before.items):
            count = len(before.items)
            raise InvalidRequest(
                f"{len(lengths)} lengths for the {count} elements of a TensorArray"
            )
        ends = np.cumsum(lengths)
        return TensorList(
            [value[end - size : end] for size, end in zip(lengths, ends, strict=True)]
        )

    return compute


def _scattered(held: TensorList, array: Array, indices: Array) -> TensorList:
    longer = held.grown(indices.max(initial=-1))
    in_range(indices, len(longer.items))
    rows = zip(indices.tolist(), _rows(array, indices).items, strict=True)
    return longer.with_items(dict(rows))


def _rows(array: Array, _: Array) -> TensorList:
    return TensorList(tuple(np.asarray(array[at], array.dtype) for at in range(len(array))))


def _reserved(shape: Array, count: Array) -> TensorList:
    if count < 0:
        raise InvalidRequest(f"The num_elements to reserve must be non-negative, but it is {count}")
    make_room((int(count),), np.object_)
    return TensorList((None,) * int(count))


def _set_item(attributes: Attributes) -> Compute:
    if not attributes.flag("resize_if_index_out_of_bounds"):
        return lambda held, index, item: held.having(index, item)
    return lambda held, index, item: held.grown(index).having(index, item)


def _while(attributes: Attributes) -> Compute:
    goes_on, body = attributes.programs["cond"], attributes.programs["body"]
    rows = rows_of(goes_on, body)

    def holds(state: Sequence[Any]) -> bool:
        return _holds(goes_on(state)[0])

    def compute(*values: Any) -> list[Any]:  # noqa: ANN401
        state = [_for_loop(value) for value in values]
        together = rows.run(state, holds) if rows is not None else None
        if together is not None:
            return together
        while holds(state):
            turn()
            state = body(state)
        return [_behind_loop(value) for value in state]

    return compute


def _for_loop(value: Any) -> Any:  # noqa: ANN401
    return LoopList(list(value.items)) if isinstance(value, TensorList) else value


def _behind_loop(value: Any) -> Any:  # noqa: ANN401
    return TensorList(tuple(value.items)) if isinstance(value, TensorList) else value


def _if(attributes: Attributes) -> Compute:
    then, otherwise = attributes.programs["then_branch"], attributes.programs["else_branch"]

    def compute(condition: Array, *values: Any) -> list[Any]:  # noqa: ANN401
        return then(values) if _holds(condition) else otherwise(values)

    return compute


def _holds(condition: Array) -> bool:
    """Tell whether a condition holds; one that is no scalar does when it is not empty."""
    return bool(condition.item() if condition.ndim == 0 else condition.size)


KERNELS: Final[Mapping[str, HostKernel]] = {
    **dict.fromkeys(("StatelessWhile", "While"), in_thread(HostKernel(_while))),
    **dict.fromkeys(("If", "StatelessIf"), in_thread(HostKernel(_if, (Output("Tout"),)))),
    "EmptyTensorList": plain(lambda shape, most: TensorList(()), _LIST),
    "TensorListConcatV2": HostKernel(_concat, _JOINED),
    "TensorListFromTensor": plain(_rows, _LIST),
    "TensorListGather": HostKernel(_gather, (_OF_LIST,)),
    "TensorListGetItem": plain(lambda held, index, shape: held.get(index, shape), _OF_LIST),
    "TensorListLength": plain(lambda held: np.array(len(held.items), np.int32), INTEGER),
    "TensorListPushBack": plain(lambda held, item: held.pushed(item), _LIST),
    "TensorListReserve": plain(_reserved, _LIST),
    "TensorListScatterIntoExistingList": plain(_scattered, _LIST),
    "TensorListSetItem": HostKernel(_set_item, (_LIST,)),
    "TensorListSplit": HostKernel(_split, (_LIST,)),
    "TensorListStack": HostKernel(_stack, (_OF_LIST,)),
}


@dataclass(frozen=True)
class RowLoop:
    """A loop whose turns each compute one row of its lists; see the module.

    Attributes:
        body: code of one turn.
        counters: arguments that count.
        lists: arguments that are lists, with the counter of each.
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
        indices = {
            at: [int(each[self.counters.index(counter)]) for each in counts]
            for at, counter in self.lists.items()
        }
        if any(not 0 <= at < len(state[key].items) for key, own in indices.items() for at in own):
            return None
        parts = self._run_turns(state, counts)
        for at, own in indices.items():
            items = list(state[at].items)
            for index in own:
                set_by = (part[at].items[index] for part in parts)
                items[index] = next((each for each in set_by if each is not items[index]), None)
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


def rows_of(goes_on: RunBody, body: RunBody) -> RowLoop | None:
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
    return RowLoop(body, counters, found)


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
