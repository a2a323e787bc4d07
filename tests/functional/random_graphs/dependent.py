"""Operations whose results have as many elements as the values of a request say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array
from tests.functional.random_graphs.arithmetic import truths
from tests.functional.random_graphs.moves import place, places
from tests.functional.random_graphs.values import Graph, NoFit, Refusal, Value


def _first(graph: Graph) -> Value:
    """Make a number of the first of some integers, which a shape may be computed from."""
    value = graph.pick(lambda each: each.dtype in (np.int32, np.int64) and each.rank > 0)
    if 0 in value.shape:
        raise NoFit
    node = op.gather(op.reshape(value.node, places(-1), False), place(0), place(0))
    return graph.add("first", node, _taken, [value], shape=())


def _taken(a: Array) -> Any:
    if not a.size:
        raise Refusal("a place in nothing")
    return a.reshape(-1)[0]


def _count(graph: Graph, most: int) -> tuple[Value, Any]:
    """Make a number from 0 to `most`, and the same as a size."""
    first = _first(graph)
    divisor = np.array(most + 1, first.dtype)
    node = op.floor_mod(first.node, op.constant(divisor))
    count = graph.add(f"mod {most + 1}", node, lambda a: np.mod(a, divisor), [first], shape=())
    return count, op.unsqueeze(op.convert(count.node, "i64"), place(0))


def keep_where(graph: Graph) -> None:
    """Keep those that a mask says, as `tf.boolean_mask` does."""
    mask = truths(graph)
    if mask.rank != 1:
        raise NoFit
    value = graph.pick(
        lambda each: each.integers and each.rank > 0 and each.shape[0] == mask.shape[0]
    )
    found = op.squeeze(op.non_zero(mask.node, "i64"), places(0))
    node = op.gather(value.node, found, place(0))
    shape = (graph.new_name(), *value.shape[1:])
    graph.add("where", node, lambda a, m: a[m], [value, mask], shape=shape)


def find(graph: Graph) -> None:
    """Give the places that are not 0."""
    value = graph.pick(lambda each: each.rank > 0)
    node = op.non_zero(value.node, "i64")
    shape = (value.rank, graph.new_name())
    graph.add(
        "non_zero", node, lambda a: np.stack(a.nonzero()), [value], dtype=np.int64, shape=shape
    )


def unique(graph: Graph) -> None:
    value = graph.pick(lambda each: each.dtype in (np.int32, np.int64) and each.rank == 1)
    nodes = op.unique(value.node, sorted=True, index_element_type="i64", count_element_type="i64")
    size = graph.new_name()
    graph.add("unique", nodes.output(0), np.unique, [value], shape=(size,))
    counts: Callable[[Array], Array] = lambda a: np.unique(a, return_counts=True)[1]  # noqa: E731
    graph.add("counts", nodes.output(3), counts, [value], dtype=np.int64, shape=(size,))


def count_up(graph: Graph) -> None:
    """Count from 0 up to a number of the request."""
    count, _ = _count(graph, 9)
    node = op.range(place(0), op.convert(count.node, "i64"), place(1), "i64")
    graph.add("range", node, np.arange, [count], dtype=np.int64, shape=(graph.new_name(),))


def cut(graph: Graph) -> None:
    """Keep as many as a number of the request says."""
    value = graph.pick(lambda each: each.integers and each.rank == 1)
    count, size = _count(graph, 7)
    node = op.slice(value.node, places(0), size, places(1), places(0))
    graph.add("first ones", node, lambda a, n: a[:n], [value, count], shape=(graph.new_name(),))


def repeat(graph: Graph) -> None:
    value = graph.pick(lambda each: each.integers and each.rank == 1 and each.fixed)
    count, size = _count(graph, 3)
    node = op.tile(value.node, size)
    graph.add("repeated", node, np.tile, [value, count], shape=(graph.new_name(),))


def fold(graph: Graph) -> None:
    """Make rows whose length a number of the request says; it may not fit."""
    value = graph.pick(lambda each: each.integers and each.rank == 1)
    count, size = _count(graph, 2)
    length = op.add(size, places(1))
    node = op.reshape(value.node, op.concat([places(-1), length], 0), False)
    shape = (graph.new_name(), graph.new_name())
    graph.add("rows of 1 more than", node, _folded, [value, count], shape=shape)


def _folded(a: Array, count: Array) -> Array:
    if a.size % (int(count) + 1):
        raise Refusal("a pattern that does not fit")
    return a.reshape(-1, int(count) + 1) if a.size else a.reshape(0, int(count) + 1)


DEPENDENT = (keep_where, keep_where, find, unique, count_up, cut, repeat, fold)


def depend(graph: Graph) -> None:
    graph.chance.choice(DEPENDENT)(graph)
