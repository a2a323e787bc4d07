"""A random graph as a model to be served, and requests of it with what they are to give."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.tensors import Array
from tests.functional.random_graphs.bodies import branch, loop
from tests.functional.random_graphs.numbers import any_type, values
from tests.functional.random_graphs.steps import try_steps
from tests.functional.random_graphs.values import Graph, Refusal, Undefined, Value
from tests.unit.engines.openvino.models import result, save

SHAPES = [(6,), (2, 4), (1,), (12,)]
MOST_STEPS = 9
MOST_OUTPUTS = 5


@dataclass(frozen=True)
class Expected:
    """What a request is to get.

    Attributes:
        outputs: by name; empty where it is to be refused, or where any answer will do.
        refused: whether it is to be refused.
    """

    outputs: Mapping[str, Array] = field(default_factory=dict)
    refused: bool = False


class RandomGraph:
    """Whatever comes of a seed; the same seed gives the same graph and requests.

    Attributes:
        listing: its operations, line by line.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._chance = random.Random(seed)
        self._graph = Graph(self._chance, self._chance.random() < 0.5)
        self._parameters: dict[Value, Any] = {}
        self._make()
        self.outputs = {f"y{i}": value for i, value in enumerate(self._unread())}
        reached = {each for value in self.outputs.values() for each in value.reached()}
        self.inputs = {each: node for each, node in self._parameters.items() if each in reached}
        told = [f"{name} = {value.name}" for name, value in self.outputs.items()]
        self.listing = "\n".join([f"graph {seed}", *self._graph.lines, *told])

    def _make(self) -> None:
        chance, dtype = self._chance, any_type(self._chance)
        shape = chance.choice(SHAPES)
        for i in range(chance.randint(1, 3)):
            dtype = any_type(chance) if chance.random() < 0.3 else dtype
            parameter, value = self._graph.input(f"x{i}", dtype, shape)
            self._parameters[value] = parameter
        try_steps(self._graph, chance.randint(1, MOST_STEPS), {branch: 1, loop: 1})

    def _unread(self) -> list[Value]:
        ends = [each for each in self._graph.values if each.computed and not each.read]
        return ends[-MOST_OUTPUTS:]

    def save(self, directory: Path) -> None:
        results = [result(name, value.node) for name, value in self.outputs.items()]
        save(directory, results, list(self.inputs.values()))

    def request(self, chance: random.Random) -> dict[str, Array]:
        """Make values for its inputs."""
        return {
            each.name: values(chance, each.dtype, tuple(map(int, each.shape)))
            for each in self.inputs
        }

    def expected(self, request: Mapping[str, Array]) -> Expected:
        """Compute it with numpy."""
        known = {each: request[each.name] for each in self.inputs}
        try:
            with np.errstate(all="ignore"):
                return Expected({name: each.of(known) for name, each in self.outputs.items()})
        except Refusal:
            return Expected(refused=True)
        except Undefined:
            return Expected()
