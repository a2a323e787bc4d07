"""Which operations a random graph is made of, and how often each is tried."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from tests.functional.random_graphs.arithmetic import (
    binary,
    clamp,
    compare,
    convert,
    cumulate,
    logic,
    multiply_matrices,
    power,
    reduce,
    select,
    shift,
    through_reals,
    unary,
)
from tests.functional.random_graphs.dependent import depend
from tests.functional.random_graphs.moves import move
from tests.functional.random_graphs.values import Graph, NoFit

Step = Callable[[Graph], None]

STEPS: Mapping[Step, int] = {
    binary: 9,
    move: 5,
    unary: 3,
    reduce: 3,
    select: 3,
    depend: 4,
    compare: 3,
    convert: 2,
    clamp: 1,
    cumulate: 1,
    logic: 1,
    multiply_matrices: 1,
    power: 1,
    shift: 1,
    through_reals: 1,
}


def try_steps(graph: Graph, count: int, further: Mapping[Step, int] | None = None) -> None:
    """Add up to `count` operations; one that OpenVINO or the tensors do not allow is left."""
    steps = {**STEPS, **(further or {})}
    for _ in range(count):
        step = graph.chance.choices(list(steps), list(steps.values()))[0]
        with suppress(NoFit, RuntimeError):
            step(graph)
