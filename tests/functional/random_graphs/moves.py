"""Operations that move integers or choose among them, with what they are to give."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import openvino.opset12 as op12
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array
from tests.functional.random_graphs.numbers import number
from tests.functional.random_graphs.values import Graph, NoFit, Undefined, Value


def places(*numbers: int) -> Any:
    """Make a constant of places, sizes or axes."""
    return op.constant(np.array(numbers, np.int64))


def place(value: int) -> Any:
    return op.constant(np.int64(value))


def _row(graph: Graph) -> tuple[Value, int]:
    """Choose integers whose last dimension has a known size, and give that."""
    value = graph.pick(lambda each: each.integers and each.rank > 0)
    size = value.shape[-1]
    if not isinstance(size, int):
        raise NoFit
    return value, size


def _line(graph: Graph) -> tuple[Value, int]:
    """Choose one dimension of integers with a known size."""
    value = graph.pick(lambda each: each.integers and each.rank == 1 and each.fixed)
    return value, int(value.shape[0])


def reverse(graph: Graph) -> None:
    value, _ = _row(graph)
    axis = places(value.rank - 1)
    node = op.slice(value.node, places(-1), places(-(2**31)), places(-1), axis)
    graph.add("reversed", node, lambda a: a[..., ::-1], [value])


def gather(graph: Graph) -> None:
    value, size = _row(graph)
    chosen = [graph.chance.randrange(size) for _ in range(size)]
    node = op.gather(value.node, places(*chosen), place(-1))
    graph.add(f"at {chosen}", node, lambda a: a[..., chosen], [value])


def gather_at_values(graph: Graph) -> None:
    """Take places of one tensor that another one says."""
    indices = graph.pick(lambda each: each.dtype in (np.int32, np.int64) and each.rank == 1)
    value, size = _line(graph)
    if size > 100:
        raise NoFit
    divisor = op.constant(np.array(size, indices.dtype))
    node = op.gather(value.node, op.floor_mod(indices.node, divisor), place(0))
    told, shape = f"at places mod {size}", indices.shape
    graph.add(told, node, lambda a, i: a[np.mod(i, size)], [value, indices], shape=shape)


def append(graph: Graph) -> None:
    value, _ = _line(graph)
    other = graph.pick(lambda each: each.dtype == value.dtype and each.rank == 1)
    size = _sum(graph, value.shape[0], other.shape[0])
    node = op.concat([value.node, other.node], 0)
    joined = [value, other]
    graph.add("concat", node, lambda *rows: np.concatenate(rows), joined, shape=(size,))


def _sum(graph: Graph, *sizes: int | str) -> int | str:
    known = [size for size in sizes if isinstance(size, int)]
    return sum(known) if len(known) == len(sizes) else graph.new_name()


def pad(graph: Graph) -> None:
    value, size = _row(graph)
    filled = number(graph.chance, value.dtype)
    front = [0] * (value.rank - 1) + [1]
    kind = op.constant(np.array(filled, value.dtype))
    node = op.pad(value.node, places(*front), places(*[0] * value.rank), "constant", kind)
    widths = [(each, 0) for each in front]
    shape = (*value.shape[:-1], size + 1)
    padded: Callable[[Array], Array] = lambda a: np.pad(a, widths, constant_values=filled)  # noqa: E731
    graph.add(f"padded by {filled}", node, padded, [value], shape=shape)


def transpose(graph: Graph) -> None:
    value = graph.pick(lambda each: each.integers and each.rank == 2)
    node = op.transpose(value.node, places(1, 0))
    graph.add("transposed", node, np.transpose, [value], shape=value.shape[::-1])


def flatten(graph: Graph) -> None:
    value = graph.pick(lambda each: each.rank > 1)
    size = int(np.prod(value.shape)) if value.fixed else graph.new_name()  # type: ignore[arg-type]
    node = op.reshape(value.node, places(-1), False)
    graph.add("flat", node, np.ravel, [value], shape=(size,))


def roll(graph: Graph) -> None:
    value, _ = _row(graph)
    node = op.roll(value.node, places(1), places(-1))
    graph.add("rolled", node, lambda a: np.roll(a, 1, -1), [value])


def best(graph: Graph) -> None:
    """Take the greatest or the least of each row, or where they are."""
    value, size = _row(graph)
    chance = graph.chance
    count, mode = chance.randint(1, size), chance.choice(["max", "min"])
    nodes = op.topk(value.node, place(count), value.rank - 1, mode, "value", "i32")
    shape = (*value.shape[:-1], count)
    order: Callable[[Array], Array] = lambda a: _order(a, mode)[..., :count]  # noqa: E731
    if chance.random() < 0.5:
        found = lambda a: np.take_along_axis(a, order(a), -1)  # noqa: E731
        graph.add(f"{mode} {count}", nodes.output(0), found, [value], shape=shape)
        return
    where = lambda a: order(_distinct(a))  # noqa: E731
    node = nodes.output(1)
    graph.add(f"places of {mode} {count}", node, where, [value], dtype=np.int32, shape=shape)


def _order(a: Array, mode: str) -> Array:
    wide = a.astype(object)
    return np.argsort(-wide if mode == "max" else wide, axis=-1, kind="stable")


def _distinct(a: Array) -> Array:
    """Give it back.

    Raises:
        Undefined: of equal numbers any may be the first.
    """
    if any(len(set(row.tolist())) < len(row) for row in a.reshape(-1, a.shape[-1])):
        raise Undefined("equal numbers")
    return a


def one_hot(graph: Graph) -> None:
    value = graph.pick(lambda each: each.rank == 1 and each.dtype in (np.int32, np.int64))
    on, off = (np.array(number(graph.chance, value.dtype), value.dtype) for _ in range(2))
    node = op.one_hot(value.node, place(3), op.constant(on), op.constant(off), -1)
    hot: Callable[[Array], Array] = lambda a: np.where(a[:, None] == np.arange(3), on, off)  # noqa: E731
    graph.add(f"one of 3 hot, {on} {off}", node, hot, [value], shape=(*value.shape, 3))


def scatter(graph: Graph) -> None:
    """Write one tensor's numbers into another, or add them there."""
    value, size = _line(graph)
    if value.dtype not in (np.int32, np.int64) or size > 100:
        raise NoFit
    other = graph.pick(lambda each: (each.dtype, each.shape) == (value.dtype, value.shape))
    chance, adds = graph.chance, graph.chance.random() < 0.5
    chosen = [chance.randrange(size) for _ in range(size)] if adds else list(range(size))
    chance.shuffle(chosen)
    how = "sum" if adds else "none"
    node = op12.scatter_elements_update(
        value.node, places(*chosen), other.node, place(0), reduction=how
    )

    def scattered(a: Array, b: Array) -> Array:
        found = a.copy()
        np.add.at(found, chosen, b) if adds else found.__setitem__(chosen, b)
        return found

    graph.add(f"scattered to {chosen}, {how}", node, scattered, [value, other])


def bucketize(graph: Graph) -> None:
    value = graph.pick(lambda each: each.dtype in (np.int32, np.int64))
    limits = np.array(sorted({number(graph.chance, value.dtype) for _ in range(4)}), value.dtype)
    right = graph.chance.random() < 0.5
    node = op.bucketize(value.node, op.constant(limits), "i32", right)
    found: Callable[[Array], Array] = lambda a: np.digitize(a, limits, right)  # noqa: E731
    graph.add(f"bucket of {limits.tolist()} {right}", node, found, [value], dtype=np.int32)


def reverse_sequences(graph: Graph) -> None:
    value = graph.pick(lambda each: each.integers and each.rank == 2 and each.fixed)
    rows, size = (int(each) for each in value.shape)
    lengths = [graph.chance.randint(1, size) for _ in range(rows)]
    node = op.reverse_sequence(value.node, op.constant(np.array(lengths, np.int32)), 0, 1)

    def turned(a: Array) -> Array:
        rows = [np.r_[row[:n][::-1], row[n:]] for row, n in zip(a, lengths, strict=True)]
        return np.stack(rows)

    graph.add(f"reversed to {lengths}", node, turned, [value])


def stand(graph: Graph) -> None:
    value = graph.pick(lambda each: each.rank == 1)
    node = op.unsqueeze(value.node, places(1))
    graph.add("column", node, lambda a: a[:, None], [value], shape=(*value.shape, 1))


def tile(graph: Graph) -> None:
    value, size = _line(graph)
    if size > 20:
        raise NoFit
    node = op.tile(value.node, places(2))
    graph.add("twice", node, lambda a: np.tile(a, 2), [value], shape=(2 * size,))


def halve(graph: Graph) -> None:
    value, size = _line(graph)
    if size % 2:
        raise NoFit
    which = graph.chance.randrange(2)
    node = op.split(value.node, place(0), 2).output(which)
    half: Callable[[Array], Array] = lambda a: np.split(a, 2)[which]  # noqa: E731
    graph.add(f"half {which}", node, half, [value], shape=(size // 2,))


MOVES: Mapping[str, Callable[[Graph], None]] = {
    move.__name__: move
    for move in (
        append,
        best,
        bucketize,
        flatten,
        gather,
        gather_at_values,
        halve,
        one_hot,
        pad,
        reverse,
        reverse_sequences,
        roll,
        scatter,
        stand,
        tile,
        transpose,
    )
}


def move(graph: Graph) -> None:
    MOVES[graph.chance.choice(list(MOVES))](graph)
