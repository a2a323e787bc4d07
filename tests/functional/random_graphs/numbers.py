"""Numbers around which kernels go wrong: constants of random graphs, and values of requests."""

import random
from collections.abc import Callable

import numpy as np

from ie_serving.core.values.tensors import Array
from tests.functional.random_graphs.values import Graph, NoFit, Value, broadcast

WEIGHTS = {
    np.int32: 8,
    np.int64: 6,
    np.int8: 1,
    np.uint8: 1,
    np.int16: 1,
    np.uint16: 1,
    np.uint32: 1,
    np.uint64: 1,
}
"""How often each type is chosen: what models compute with most is asked most."""
AROUND = [0, 1, 2, 3, 7, 100, 127, 128, 255, 256, 32767, 32768, 46340, 46341, 65535, 65536]
AROUND += [2**20 + 1, 2**23 + 1, 2**24 - 1, 2**24, 2**24 + 1, 2**24 + 3, 2**25 + 1, 2**30 + 1]
AROUND += [2**31 - 2, 2**31 - 1, 2**31]
SMALL = [1, 2, 3, 5, 7, 10, 13, 100]
FELLOWS = 0.55
"""How often the second operand is a tensor, not a constant."""


def any_type(chance: random.Random) -> type:
    return chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]


def _any_magnitude(chance: random.Random) -> int:
    return chance.choice((1, -1)) * chance.randrange(1 << chance.randint(1, 31))


KINDS: dict[str, Callable[[random.Random], int]] = {
    "digits": lambda chance: chance.randint(0, 9),
    "small": lambda chance: chance.randint(-1000, 1000),
    "beside 2^24": lambda chance: chance.choice((1, -1)) * (2**24 + chance.randint(-5, 5)),
    "limits": lambda chance: chance.choice((1, 1, -1)) * chance.choice(AROUND),
    "any": _any_magnitude,
}


def held(number: int, dtype: np.dtype) -> int:
    """Bring a number into the type, and into 32 bits: beyond them requests are refused."""
    info = np.iinfo(dtype)
    return min(max(number, int(info.min), -(2**31)), int(info.max), 2**31 - 1)


def number(chance: random.Random, dtype: np.dtype) -> int:
    kind = chance.choice(("digits", "digits", "limits", "any"))
    return held(KINDS[kind](chance), dtype)


def values(chance: random.Random, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    """Fill an input: mostly with numbers of one kind."""
    kinds = [chance.choice(list(KINDS))] if chance.random() < 0.8 else list(KINDS)
    count = int(np.prod(shape))
    numbers = [held(KINDS[chance.choice(kinds)](chance), dtype) for _ in range(count)]
    return np.array(numbers, dtype).reshape(shape)


def constant(graph: Graph, like: Value, *, small: bool = False) -> Value:
    """Make a constant of a tensor's type that fits beside it: one number, a row, or all."""
    shapes = [(), () if small else like.shape[-1:], () if small else like.shape]
    shape = graph.chance.choice([each for each in shapes if all(isinstance(n, int) for n in each)])
    count = int(np.prod(shape))
    draw = graph.chance.choice if small else lambda _: number(graph.chance, like.dtype)
    numbers = [draw(SMALL) for _ in range(count)]
    return graph.constant(np.array(numbers, like.dtype).reshape(shape))


def fellow(graph: Graph, value: Value, *, small: bool = False) -> Value:
    """Choose a second operand of the same type."""
    if graph.chance.random() < FELLOWS:
        return graph.pick(lambda other: other.dtype == value.dtype and fits(value, other))
    return constant(graph, value, small=small)


def fits(*values: Value) -> bool:
    try:
        broadcast(*(value.shape for value in values))
    except NoFit:
        return False
    return True
