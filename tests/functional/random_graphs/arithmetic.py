"""Operations on integers that compute, with what they are to give."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array
from tests.functional.random_graphs.numbers import any_type, constant, fellow, fits, number
from tests.functional.random_graphs.values import (
    Graph,
    NoFit,
    Reference,
    Refusal,
    Undefined,
    Value,
    broadcast,
)

SIDES = 2**31
"""Reals from here on have no integer of 32 bits."""


def quotient(a: Array, b: Array) -> Array:
    """Cut towards 0, as C++, TensorFlow and ONNX do."""
    a, b = divisible(a, b)
    wide = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return wrapped(np.where((a < 0) != (b < 0), -wide, wide), a.dtype)


def divisible(a: Array, b: Array) -> tuple[Array, Array]:
    """Bring both to one shape.

    Raises:
        Refusal: a divisor is 0.
    """
    a, b = np.broadcast_arrays(a, b)
    if (b == 0).any():
        raise Refusal("division by 0")
    return a, b


def wrapped(numbers: Array, dtype: Any) -> Array:
    """Keep the lowest bits of integers of any size."""
    bits = np.iinfo(dtype).bits
    kept = [int(each) % (1 << bits) for each in numbers.reshape(-1)]
    return np.array(kept, f"u{bits // 8}").astype(dtype).reshape(numbers.shape)


BINARY: Mapping[str, tuple[Callable[..., Any], Reference]] = {
    "add": (op.add, np.add),
    "subtract": (op.subtract, np.subtract),
    "multiply": (op.multiply, np.multiply),
    "squared_difference": (op.squared_difference, lambda a, b: (a - b) * (a - b)),
    "divide": (op.divide, quotient),
    "mod": (op.mod, lambda a, b: np.fmod(*divisible(a, b))),
    "floor_mod": (op.floor_mod, lambda a, b: np.mod(*divisible(a, b))),
    "maximum": (op.maximum, np.maximum),
    "minimum": (op.minimum, np.minimum),
    "and": (op.bitwise_and, np.bitwise_and),
    "or": (op.bitwise_or, np.bitwise_or),
    "xor": (op.bitwise_xor, np.bitwise_xor),
}
DIVISIONS = ("divide", "mod", "floor_mod")
UNARY: Mapping[str, tuple[Callable[..., Any], Reference]] = {
    "abs": (op.abs, np.abs),
    "relu": (op.relu, lambda a: np.maximum(a, 0)),
    "sign": (op.sign, np.sign),
    "floor": (op.floor, np.array),
    "ceiling": (op.ceiling, np.array),
    "not": (op.bitwise_not, np.bitwise_not),
    "negative": (op.negative, np.negative),
}
COMPARISONS: Mapping[str, tuple[Callable[..., Any], Reference]] = {
    name: (getattr(op, name), getattr(np, name))
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
}
LOGIC: Mapping[str, tuple[Callable[..., Any], Reference]] = {
    name: (getattr(op, name), getattr(np, name))
    for name in ("logical_and", "logical_or", "logical_xor")
}


def integers(graph: Graph) -> Value:
    return graph.pick(lambda value: value.integers)


def unary(graph: Graph) -> None:
    value = integers(graph)
    signed = [name for name in UNARY if name != "negative" or value.dtype.kind == "i"]
    name = graph.chance.choice(signed)
    build, reference = UNARY[name]
    graph.add(name, build(value.node), reference, [value])


def pairwise(graph: Graph, name: str, pair: list[Value], table: Any, dtype: Any = None) -> None:
    """Add an operation of two tensors that are brought to one shape."""
    build, reference = table[name]
    shape = broadcast(*(each.shape for each in pair))
    graph.add(name, build(*(each.node for each in pair)), reference, pair, dtype=dtype, shape=shape)


def binary(graph: Graph) -> None:
    value, name = integers(graph), graph.chance.choice(list(BINARY))
    small = name in DIVISIONS and graph.chance.random() < 0.6
    pair = [value, fellow(graph, value, small=small)]
    if not small and graph.chance.random() < 0.2:
        pair.reverse()
    pairwise(graph, name, pair, BINARY)


def compare(graph: Graph) -> None:
    value = integers(graph)
    pairwise(
        graph,
        graph.chance.choice(list(COMPARISONS)),
        [value, fellow(graph, value)],
        COMPARISONS,
        bool,
    )


def truths(graph: Graph) -> Value:
    """Choose a mask, or make one by a comparison."""
    if graph.chance.random() < 0.5:
        compare(graph)
        return graph.values[-1]
    return graph.pick(lambda value: value.dtype == bool)


def logic(graph: Graph) -> None:
    value = truths(graph)
    if graph.chance.random() < 0.25:
        graph.add("logical_not", op.logical_not(value.node), np.logical_not, [value])
        return
    other = graph.pick(lambda each: each.dtype == bool and fits(value, each))
    pairwise(graph, graph.chance.choice(list(LOGIC)), [value, other], LOGIC)


def select(graph: Graph) -> None:
    mask, value = truths(graph), integers(graph)
    chosen = [value, fellow(graph, value)]
    graph.chance.shuffle(chosen)
    sources = [mask, *chosen]
    shape = broadcast(*(each.shape for each in sources))
    node = op.select(*(each.node for each in sources))
    graph.add("select", node, np.where, sources, dtype=value.dtype, shape=shape)


def power(graph: Graph) -> None:
    value = integers(graph)
    exponent = np.array(graph.chance.choice([0, 1, 2, 2, 3, 3, 4, 5]), value.dtype)
    node = op.power(value.node, op.constant(exponent))
    graph.add(f"power {exponent}", node, lambda a: np.power(a, exponent), [value])


def shift(graph: Graph) -> None:
    value = integers(graph)
    by = np.array(graph.chance.randint(0, min(31, 8 * value.dtype.itemsize - 1)), value.dtype)
    right = graph.chance.random() < 0.5
    build = op.bitwise_right_shift if right else op.bitwise_left_shift
    told = f"{'>>' if right else '<<'} {by}"
    node = build(value.node, op.constant(by))
    graph.add(told, node, lambda a: a >> by if right else a << by, [value])


def clamp(graph: Graph) -> None:
    value = integers(graph)
    least, most = sorted(number(graph.chance, value.dtype) for _ in range(2))
    node = op.clamp(value.node, float(least), float(most))
    graph.add(f"clamp {least} {most}", node, lambda a: np.clip(a, least, most), [value])


def convert(graph: Graph) -> None:
    """Make other integers of integers or truths, or truths of integers."""
    value = graph.pick(lambda each: each.integers or each.dtype == bool)
    to_truths = value.integers and graph.chance.random() < 0.1
    target = np.dtype(bool if to_truths else any_type(graph.chance))
    node = op.convert(value.node, _named(target))
    graph.add(f"to {target}", node, lambda a: a.astype(target), [value], dtype=target)


def _named(dtype: Any) -> str:
    return str(ov.Type(np.dtype(dtype)).get_type_name())


REALS: Mapping[str, tuple[Callable[..., Any], Reference]] = {
    "as they are": (lambda node, _: node, np.array),
    "halves": (
        lambda node, real: op.floor(op.multiply(node, op.constant(real(0.5)))),
        lambda a: np.floor(a * a.dtype.type(0.5)),
    ),
    "next": (lambda node, real: op.add(node, op.constant(real(1))), lambda a: a + a.dtype.type(1)),
}


def through_reals(graph: Graph) -> None:
    """Go by float32 or float64, and back."""
    value, chance = integers(graph), graph.chance
    real, target = chance.choice([np.float32, np.float64]), chance.choice([np.int32, np.int64])
    told = chance.choice(list(REALS))
    build, reference = REALS[told]

    def back(a: Array) -> Array:
        found = reference(a.astype(real))
        if (np.abs(found) >= SIDES).any():
            raise Undefined("C++ does not define it")
        return np.trunc(found)

    node = op.convert(build(op.convert(value.node, _named(real)), real), _named(target))
    graph.add(f"by {real.__name__}, {told}", node, back, [value], dtype=target)


def mean(a: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Cut towards 0.

    Raises:
        Refusal: it is one of nothing.
        Undefined: a sum leaves the type.
    """
    count = int(np.prod([a.shape[each] for each in axis]))
    if not count:
        raise Refusal("the mean of nothing")
    sums = np.asarray(a.astype(object).sum(axis=axis, keepdims=keepdims), object)
    info = np.iinfo(a.dtype)
    if any(not info.min <= each <= info.max for each in sums.reshape(-1)):
        raise Undefined("the sum leaves the type")
    cut = [abs(each) // count * (1 if each >= 0 else -1) for each in sums.reshape(-1)]
    return np.array(cut, a.dtype).reshape(sums.shape)


def _ends(end: str) -> Reference:
    """Give the greatest or the least; of nothing, the ends of the type."""

    def reduce(a: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
        info = np.iinfo(a.dtype)
        initial = info.min if end == "max" else info.max
        return np.asarray(getattr(a, end)(axis=axis, keepdims=keepdims, initial=initial))

    return reduce


REDUCTIONS: Mapping[str, Reference] = {
    "max": _ends("max"),
    "min": _ends("min"),
    "sum": lambda a, axis, keepdims: a.sum(axis=axis, keepdims=keepdims, dtype=a.dtype),
    "prod": lambda a, axis, keepdims: a.prod(axis=axis, keepdims=keepdims, dtype=a.dtype),
    "l1": lambda a, axis, keepdims: np.abs(a).sum(axis=axis, keepdims=keepdims, dtype=a.dtype),
    "mean": mean,
}


def reduce(graph: Graph) -> None:
    value = graph.pick(lambda each: each.integers and each.rank > 0)
    chance, every = graph.chance, range(value.rank)
    axes = chance.choice([(axis,) for axis in every] + [tuple(every)])
    keep, name = chance.random() < 0.5, chance.choice(list(REDUCTIONS))
    kept = [1 if axis in axes else size for axis, size in enumerate(value.shape)]
    shape = kept if keep else [size for axis, size in enumerate(value.shape) if axis not in axes]
    node = getattr(op, f"reduce_{name}")(value.node, op.constant(np.array(axes, np.int64)), keep)
    graph.add(
        f"{name} over {axes}",
        node,
        lambda a: REDUCTIONS[name](a, axes, keep),
        [value],
        shape=tuple(shape),
    )


def cumulate(graph: Graph) -> None:
    value = graph.pick(lambda each: each.integers and each.rank > 0)
    axis = graph.chance.randrange(value.rank)
    exclusive, reverse = (graph.chance.random() < 0.3 for _ in range(2))
    node = op.cum_sum(value.node, op.constant(np.int64(axis)), exclusive, reverse)

    def sums(a: Array) -> Array:
        a = np.flip(a, axis) if reverse else a
        found = np.cumsum(a, axis, a.dtype) - (a if exclusive else 0)
        return np.flip(found, axis) if reverse else found

    graph.add(f"sums along {axis} {exclusive} {reverse}", node, sums, [value])


def multiply_matrices(graph: Graph) -> None:
    value = graph.pick(lambda each: each.rank == 2 and each.dtype in (np.int32, np.int64))
    if not isinstance(value.shape[1], int):
        raise NoFit
    like = Value(value.node, np.array, (), value.dtype, (value.shape[1], 2), "")
    other = constant(graph, like)
    if other.rank != 2:
        other = graph.constant(np.ones(like.shape, value.dtype))
    by_name = graph.chance.random() < 0.5
    pair = [value.node, other.node]
    node = op.einsum(pair, "ab,bc->ac") if by_name else op.matmul(*pair, False, False)
    told = "einsum" if by_name else "matmul"
    graph.add(told, node, np.matmul, [value, other], shape=(value.shape[0], 2))
