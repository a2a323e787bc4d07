"""Lists of tensors, in which `tf.map_fn` keeps its rows.

A change gives a new list, and the old one stays unchanged. Outside of loops that is a copy. Within
a loop a copy in each iteration would take time quadratic in the rows, so a list of a loop passes
its elements on to its successor, and keeps only the changes to undo should it be read again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.host_kernel import HostObject

LISTS = frozenset(
    {
        "EmptyTensorList",
        "TensorListFromTensor",
        "TensorListPushBack",
        "TensorListReserve",
        "TensorListScatterIntoExistingList",
        "TensorListSetItem",
        "TensorListSplit",
    }
)
"""Operations that give a list."""


class TensorList(HostObject):
    """A list of tensors. Any thread may read it; a change makes another one.

    Args of the constructor:
        items: its tensors; None at indices that nothing was set to.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    @property
    def items(self) -> Sequence[Any]:
        """Give its tensors; the caller leaves them as they are."""
        return self._items

    def get(self, index: Array, shape: Array) -> Array:
        """Give one tensor."""
        at = self._checked_index(index)
        item: Array | None = self.items[at]
        if item is None:
            raise InvalidRequest(f"Trying to read an uninitialized element {at} of a list")
        return item

    def having(self, index: Array, item: Array) -> "TensorList":
        """Give a list with a tensor at an index."""
        at = self._checked_index(index)
        return TensorList((*self.items[:at], item, *self.items[at + 1 :]))

    def with_items(self, new: Mapping[int, Array]) -> "TensorList":
        """Give a list with tensors at some indices, by index."""
        return TensorList([new.get(at, item) for at, item in enumerate(self.items)])

    def pushed(self, item: Array) -> "TensorList":
        """Give a list with one more tensor."""
        return TensorList((*self.items, item))

    def grown(self, index: Array) -> "TensorList":
        """Give a list that has the index `index`."""
        more = int(index) + 1 - len(self.items)
        make_room((more,), np.object_)
        return self.extended(more) if more > 0 else self

    def extended(self, more: int) -> "TensorList":
        """Give a list with so many items more."""
        return TensorList((*self.items, *[None] * more))

    def _checked_index(self, index: Array) -> int:
        at = int(index)
        if not 0 <= at < len(self.items):
            raise InvalidRequest(f"element {at} of a list with {len(self.items)} elements")
        return at


class LoopList(TensorList):
    """A list within a loop, for one thread.

    Args of the constructor:
        items: its tensors; it changes them.
    """

    def __init__(self, items: list[Any]) -> None:
        self._held: list[Any] | None = items
        # Once its elements are passed on: its successor, its length, replaced elements.
        self._next: LoopList | None = None
        self._undo: tuple[int, slice, list[Any]] = (0, slice(0), [])

    @property
    def items(self) -> Sequence[Any]:
        """Give its tensors; of one that has a successor, after a copy."""
        if self._held is None:
            self._held, self._next = self._rebuilt(), None
        return self._held

    def _rebuilt(self) -> list[Any]:
        """Copy the tensors of the newest successor, and undo the changes of each."""
        changed, newest = [], self
        while newest._held is None:
            assert newest._next is not None
            changed.append(newest._undo)
            newest = newest._next
        items = list(newest._held)
        # The lists are undone from the newest back to this one: each has only its own changes.
        for length, at, replaced in reversed(changed):
            items[at] = replaced
            del items[length:]
        return items

    def having(self, index: Array, item: Array) -> TensorList:
        """See `TensorList.having`."""
        at = self._checked_index(index)
        return self._changed(slice(at, at + 1), [item])

    def pushed(self, item: Array) -> TensorList:
        """See `TensorList.pushed`."""
        return self._changed(slice(len(self.items), None), [item])

    def extended(self, more: int) -> TensorList:
        """See `TensorList.extended`."""
        return self._changed(slice(len(self.items), None), [None] * more)

    def _changed(self, at: slice, new: list[Any]) -> "LoopList":
        items = self.items
        assert isinstance(items, list)
        self._undo = (len(items), at, items[at])
        items[at] = new
        self._held, self._next = None, LoopList(items)
        return self._next
