"""Kernels of loops and branches, and of the lists of tensors that `tf.map_fn` keeps in them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ie_serving.core.errors import InvalidRequest
from ie_serving.core.tensors import Array
from ie_serving.engines.openvino.savedmodel.file import VARIANT
from ie_serving.engines.openvino.savedmodel.host.allowance import make_room, turn
from ie_serving.engines.openvino.savedmodel.host.attributes import Attributes
from ie_serving.engines.openvino.savedmodel.host.kernel import (
    INTEGER,
    Compute,
    Kernel,
    Output,
    in_thread,
    plain,
)
from ie_serving.engines.openvino.savedmodel.host.needs import FUNCTIONS
from ie_serving.engines.openvino.savedmodel.host.places import in_range
from ie_serving.engines.openvino.savedmodel.host.tensor_list import LISTS, LoopList, TensorList
from ie_serving.wire.protobuf.messages import Proto


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
        return np.stack(tuple(items))
    sizes = [int(size) for size in np.ravel(shape)]
    if -1 in sizes:
        raise InvalidRequest("Tried to stack elements of an empty list with an open shape")
    return np.empty((0, *sizes), dtype)


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

    def compute(*values: Any) -> list[Any]:  # noqa: ANN401
        state = [_for_loop(value) for value in values]
        while _holds(goes_on(state)[0]):
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


_OF_LIST = Output("element_dtype")
_LIST = Output("", None)

KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        **dict.fromkeys(("StatelessWhile", "While"), in_thread(Kernel(_while))),
        **dict.fromkeys(("If", "StatelessIf"), in_thread(Kernel(_if, (Output("Tout"),)))),
        "EmptyTensorList": plain(lambda shape, most: TensorList(()), _LIST),
        "TensorListFromTensor": plain(_rows, _LIST),
        "TensorListGather": Kernel(_gather, (_OF_LIST,)),
        "TensorListGetItem": plain(lambda held, index, shape: held.get(index, shape), _OF_LIST),
        "TensorListLength": plain(lambda held: np.array(len(held.items), np.int32), INTEGER),
        "TensorListPushBack": plain(lambda held, item: held.pushed(item), _LIST),
        "TensorListReserve": in_thread(plain(_reserved, _LIST)),
        "TensorListScatterIntoExistingList": plain(_scattered, _LIST),
        "TensorListSetItem": Kernel(_set_item, (_LIST,)),
        "TensorListStack": Kernel(_stack, (_OF_LIST,)),
    }
)
