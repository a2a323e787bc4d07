"""What a generator of one operation draws from, and the registry of generators.

Three sources are kept apart, so that the same graph can be asked with other sizes and other values:
`form` (attributes, ranks, types) decides the graph, `sizes` the dimensions, `values` the numbers.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ie_serving.core.values.tensors import Array

T = TypeVar("T")

FLOAT = np.float32
DATA_TYPES = (FLOAT, FLOAT, FLOAT, np.int32, np.int64, np.uint8, np.float16)
"""Of what is only moved."""


class Case(NamedTuple):
    """One operation with operands.

    Attributes:
        operands: in the order in which `build` takes their nodes.
        build: makes the operation.
        held: places of operands that are the model's own in any case, as axes of a product.
    """

    operands: Sequence[Array]
    build: Callable[..., Any]
    held: Sequence[int] = ()


class Draw:
    """Gives random numbers, sizes and choices.

    Args of the constructor:
        form: seed of what decides the graph.
        sizes: seed of the dimensions.
        values: seed of the numbers.
    """

    def __init__(self, form: int, sizes: int, values: int) -> None:
        self.form = random.Random(form)
        self._sizes = random.Random(sizes)
        self.values = np.random.default_rng(values)
        # Numbers of two requests have nothing in common.
        self._step = float(self.values.integers(1, 100))

    def pick(self, choices: Sequence[T]) -> T:
        """Choose what decides the graph."""
        return self.form.choice(choices)

    def chance(self, share: float) -> bool:
        return self.form.random() < share

    def rank(self, low: int, high: int) -> int:
        return self.form.randint(low, high)

    def size(self, low: int = 1, high: int = 5) -> int:
        return self._sizes.randint(low, high)

    def shape(self, low: int, high: int) -> list[int]:
        """Draw a shape of as many dimensions, the more the smaller."""
        rank = self.rank(low, high)
        most = {0: 9, 1: 40, 2: 9, 3: 6, 4: 5}.get(rank, 4)
        return [self.size(1, most) for _ in range(rank)]

    def floats(self, shape: Sequence[int], low: float = -1, high: float = 1) -> Array:
        drawn = self.values.uniform(low, high, tuple(shape)) * self._step
        return np.asarray(drawn, FLOAT)

    def share(self, shape: Sequence[int], low: float = 0, high: float = 1) -> Array:
        """Draw floats that stay within their limits."""
        return np.asarray(self.values.uniform(low, high, tuple(shape)), FLOAT)

    def ints(self, shape: Sequence[int], low: int, high: int, dtype: type | None = None) -> Array:
        """Draw integers, the highest included."""
        dtype = dtype or self.pick([np.int32, np.int64])
        return np.asarray(self.values.integers(low, high + 1, tuple(shape)), dtype)

    def data(self, shape: Sequence[int], *types: type) -> Array:
        """Draw numbers of any type, or of these."""
        dtype = self.pick(types or DATA_TYPES)
        if np.issubdtype(dtype, np.floating):
            return self.floats(shape).astype(dtype)
        if dtype is np.bool_:
            return np.asarray(self.values.integers(0, 2, tuple(shape)), np.bool_)
        return np.asarray(self.values.integers(0, 120, tuple(shape)), dtype)


Generator = Callable[[Draw], Case]
GENERATORS: dict[str, Generator] = {}


def covers(*names: str) -> Callable[[Generator], Generator]:
    """Register what draws cases of an operation, by its names in OpenVINO's operation sets."""

    def register(generator: Generator) -> Generator:
        GENERATORS.update(dict.fromkeys(names, generator))
        return generator

    return register


def const(value: Any, dtype: type = np.int64) -> Array:
    return np.array(value, dtype)


def wide(shape: Sequence[int], draw: Draw) -> list[int]:
    """Give a shape that is broadcast to another one; the graph says in which dimensions."""
    given = [1 if draw.chance(0.3) else size for size in shape]
    return given[draw.pick([0, 0, min(1, len(given))]) :]
