"""Kernels of loops and branches, and of the lists of tensors that `tf.map_fn` keeps in them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ie_serving.core.errors import InvalidRequest
from ie_serving.core.tensors import Array
from ie_serving.engines.openvino.savedmodel.host.attributes import Attributes
from ie_serving.engines.openvino.savedmodel.host.kernel import (
    INTEGER,
    Compute,
    Held,
    Kernel,
    Output,
    plain,
)
from ie_serving.wire.protobuf.messages import Proto

_VARIANT = 21
"""Number of the dtype of lists in types.proto."""
_LISTS = frozenset(
    {
        "EmptyTensorList",
        "TensorListFromTensor",
        "TensorListPushBack",
        "TensorListReserve",
        "TensorListSetItem",
    }
)


def gives_list(node: Proto) -> bool:
    """Tell whether a node gives a list of tensors."""
    types = [kind for attr in node.attr.values() for kind in attr.list.type]
    return node.op in _LISTS or (node.op in KERNELS and _VARIANT in types)


class TensorList(Held):
    """A list of tensors; changes make another one. Places that nothing was set to hold None."""

    def __init__(self, items: tuple[Any, ...]) -> None:
        self.items = items

    def get(self, index: Array, shape: Array) -> Array:
        """Give one tensor."""
        at = self._place(index)
        if self.items[at] is None:
            raise InvalidRequest(f"Trying to read an uninitialized element {at} of a list")
        item: Array = self.items[at]
        return item

    def having(self, index: Array, item: Array) -> "TensorList":
        """Copy with a tensor at a place."""
        at = self._place(index)
        return TensorList((*self.items[:at], item, *self.items[at + 1 :]))

    def grown(self, index: Array) -> "TensorList":
        """Copy so that it has the place `index`."""
        return TensorList(self.items + (None,) * (int(index) + 1 - len(self.items)))

    def _place(self, index: Array) -> int:
        at = int(index)
        if not 0 <= at < len(self.items):
            raise InvalidRequest(f"element {at} of a list with {len(self.items)} elements")
        return at


def _stack(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("element_dtype").numpy

    def compute(held: TensorList, shape: Array) -> Array:
        if any(item is None for item in held.items):
            raise InvalidRequest("Trying to stack uninitialized elements of a list")
        if held.items:
            return np.stack(held.items)
        sizes = [int(size) for size in np.ravel(shape)]
        if -1 in sizes:
            raise InvalidRequest("Tried to stack elements of an empty list with an open shape")
        return np.empty((0, *sizes), dtype)

    return compute


def _rows(array: Array, _: Array) -> TensorList:
    return TensorList(tuple(np.asarray(array[at], array.dtype) for at in range(len(array))))


def _set_item(attributes: Attributes) -> Compute:
    if not attributes.flag("resize_if_index_out_of_bounds"):
        return TensorList.having
    return lambda held, index, item: held.grown(index).having(index, item)


def _while(attributes: Attributes) -> Compute:
    goes_on, body = attributes.programs["cond"], attributes.programs["body"]

    def compute(*values: Any) -> list[Any]:  # noqa: ANN401
        state = list(values)
        while _holds(goes_on(state)[0]):
            state = body(state)
        return state

    return compute


def _if(attributes: Attributes) -> Compute:
    then, otherwise = attributes.programs["then_branch"], attributes.programs["else_branch"]

    def compute(condition: Array, *values: Any) -> list[Any]:  # noqa: ANN401
        return then(values) if _holds(condition) else otherwise(values)

    return compute


def _holds(condition: Array) -> bool:
    """Tell whether a condition holds; one that is no scalar does when it is not empty."""
    return bool(condition.item() if condition.ndim == 0 else condition.size)


_OF_LIST = Output("element_dtype")
_LIST = Output("", None)

KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        **dict.fromkeys(("StatelessWhile", "While"), Kernel(_while)),
        **dict.fromkeys(("If", "StatelessIf"), Kernel(_if, (Output("Tout"),))),
        "EmptyTensorList": plain(lambda shape, most: TensorList(()), _LIST),
        "TensorListFromTensor": plain(_rows, _LIST),
        "TensorListGetItem": plain(TensorList.get, _OF_LIST),
        "TensorListLength": plain(lambda held: np.array(len(held.items), np.int32), INTEGER),
        "TensorListPushBack": plain(lambda held, item: TensorList((*held.items, item)), _LIST),
        "TensorListReserve": plain(lambda shape, count: TensorList((None,) * int(count)), _LIST),
        "TensorListSetItem": Kernel(_set_item, (_LIST,)),
        "TensorListStack": Kernel(_stack, (_OF_LIST,)),
    }
)
