"""One graph of one operation, and requests of it that leave other numbers in its memory."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset16 as op

from ie_serving.core.values.tensors import Array
from tests.functional.memory_search import moves, numbers, windows
from tests.functional.memory_search.draw import GENERATORS, Case, Draw

# Each registers its generators as it is imported.
assert all((moves, numbers, windows))
FIXED, HELD, ASKED, COPIED, CHOSEN = "fixed", "constant", "of the request", "copied", "chosen"
"""Sizes of a graph; and of an operand, where it comes from: how many numbers are chosen follows
from values."""
CLIENTS = 3


class Example:
    """Whatever comes of a seed; the same seed gives the same graph and requests.

    Args of the constructor:
        seed: of the example.
        names: of operations to choose from.
    """

    def __init__(self, seed: int, names: list[str]) -> None:
        self._seed = seed
        chance = random.Random(f"example {seed}")
        self.name = chance.choice(names)
        self._is_open = chance.random() < 0.6
        case = self._case(seed, seed)
        self._ways = [
            HELD if place in case.held else self._way(chance, array)
            for place, array in enumerate(case.operands)
        ]
        if HELD in self._ways and set(self._ways) == {HELD}:
            self._ways[0] = ASKED
        self._behind = chance.random() < 0.5
        self._mine = case

    def _case(self, sizes: int, values: int) -> Case:
        return GENERATORS[self.name](Draw(self._seed, sizes, values))

    def _way(self, chance: random.Random, array: Array) -> str:
        way = chance.choice([HELD, ASKED, ASKED, COPIED, CHOSEN])
        if way == CHOSEN and not self._is_open:
            way = ASKED
        return way if array.ndim or way == HELD else ASKED

    def __str__(self) -> str:
        sizes = "open" if self._is_open else FIXED
        shapes = [f"{way} {each.dtype}{list(each.shape)}" for way, each in zip(
            self._ways, self._mine.operands, strict=True)]  # fmt: skip
        behind = ", read by another" if self._behind else ""
        return f"seed {self._seed}: {self.name}, {sizes}, {'; '.join(shapes)}{behind}"

    def save(self, directory: Path) -> set[str]:
        """Write it; give the types of its operations."""
        parameters: list[Any] = []

        def asked(name: str, array: Array) -> Any:
            shape = [-1] * array.ndim if self._is_open else list(array.shape)
            node = op.parameter(shape, array.dtype.type, name=name)
            node.output(0).set_names({name})
            parameters.append(node)
            return node

        request = self.request(self._mine)
        nodes = []
        for place, (array, way) in enumerate(zip(self._mine.operands, self._ways, strict=True)):
            if way == HELD:
                nodes.append(op.constant(array))
                continue
            node = asked(f"x{place}", request[f"x{place}"])
            if way in (COPIED, CHOSEN):
                node = _rows(node, asked(f"p{place}", request[f"p{place}"]))
            nodes.append(node)
        made = self._mine.build(*nodes)
        results = []
        for number, output in enumerate(made.outputs()):
            is_row = output.get_partial_shape().rank.is_static and len(output.get_partial_shape())
            read = op.concat([output, output], 0).output(0) if self._behind and is_row else output
            read.set_names({f"y{number}"})
            results.append(op.result(read))
        model = ov.Model(results, parameters, "model")
        directory.mkdir(parents=True)
        ov.save_model(model, str(directory / "model.xml"), compress_to_fp16=False)
        return {node.get_type_name() for node in model.get_ops()}

    def request(self, case: Case) -> dict[str, Array]:
        """Make the request of one client."""
        request: dict[str, Array] = {}
        for place, (array, way) in enumerate(zip(case.operands, self._ways, strict=True)):
            if way == HELD:
                continue
            sent = np.asarray(array)
            if way == COPIED:
                request[f"p{place}"] = np.arange(len(sent))
            if way == CHOSEN:
                more = np.resize(sent[::-1], (3, *sent.shape[1:]))
                request[f"p{place}"] = np.arange(len(sent) + 3) < len(sent)
                sent = np.concatenate([sent, more])
            request[f"x{place}"] = sent
        return request

    def requests(self) -> list[dict[str, Array]]:
        """Give a request, and those of other clients, of other sizes and other numbers."""
        seeds = [self._seed + (number << 40) for number in range(1, CLIENTS + 1)]
        cases = [self._case(each if self._is_open else self._seed, each) for each in seeds]
        mine, *requests = [self.request(case) for case in (self._mine, *cases)]
        # How many numbers some generators draw follows from values.
        return [
            mine,
            *(each for each in requests if self._is_open or _shapes(each) == _shapes(mine)),
        ]


def _shapes(request: Mapping[str, Array]) -> list[tuple[int, ...]]:
    return [array.shape for array in request.values()]


def _rows(node: Any, places: Any) -> Any:
    """Copy rows: those of these numbers, or those with a flag that is set."""
    if places.get_element_type() == ov.Type.boolean:
        places = op.squeeze(op.non_zero(places, "i64"), op.constant(np.array([0])))
    return op.gather(node, places, op.constant(np.int64(0)))


def differs(one: Mapping[str, Array] | str, other: Mapping[str, Array] | str) -> bool:
    """Tell whether two answers to one request are not the same."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) != isinstance(other, str)
    return any(
        not np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f")
        for name in one
    )
