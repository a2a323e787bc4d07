"""Branches and loops of random graphs, whose bodies are random graphs of one input."""

from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array
from tests.functional.random_graphs.moves import place, places
from tests.functional.random_graphs.steps import try_steps
from tests.functional.random_graphs.values import Graph, Refusal, Value

MOST_TURNS = 4


class Body:
    """A graph of one input whose result has that input's type and shape."""

    def __init__(self, outer: Graph, like: Value, steps: int) -> None:
        self.graph = Graph(outer.chance, outer.open_shapes, f"{outer.new_name()}.")
        name = self.graph.new_name()
        self.parameter, self._input = self.graph.input(name, like.dtype, like.shape)
        try_steps(self.graph, steps)
        same = [
            each
            for each in self.graph.values
            if (each.dtype, each.shape) == (like.dtype, like.shape) and each.computed
        ]
        self._result = same[-1] if same else self._next()
        outer.lines += self.graph.lines
        outer.lines.append(f"  gives {self._result.name}")
        self.node = self._result.node

    def _next(self) -> Value:
        one = self.graph.constant(np.array(1, self._input.dtype))
        node = op.add(self._input.node, one.node)
        return self.graph.add("add", node, np.add, [self._input, one])

    def of(self, array: Array) -> Array:
        return self._result.of({self._input: array})


def _entered(graph: Graph) -> Value:
    wide = (np.int32, np.int64)
    return graph.pick(lambda each: each.dtype in wide and each.rank > 0 and each.fixed)


def branch(graph: Graph) -> None:
    """Compute by one of two bodies, as the first number says."""
    value = _entered(graph)
    bodies = [Body(graph, value, 3) for _ in range(2)]
    models = [ov.Model([op.result(b.node)], [b.parameter], "body") for b in bodies]
    node = op.if_op(_positive(value).output(0))
    node.set_then_body(models[0])
    node.set_else_body(models[1])
    node.set_input(value.node, bodies[0].parameter, bodies[1].parameter)
    output = node.set_output(models[0].results[0], models[1].results[0])
    told = "if the first > 0"
    graph.add(told, output, lambda a: bodies[int(_first_of(a) <= 0)].of(a), [value])


def _positive(value: Value) -> Any:
    flat = op.reshape(value.node, places(-1), False)
    first = op.gather(flat, place(0), place(0))
    return op.greater(first, op.constant(np.array(0, value.dtype)))


def _first_of(a: Array) -> Any:
    if not a.size:
        raise Refusal("a place in nothing")
    return a.reshape(-1)[0]


def loop(graph: Graph) -> None:
    """Compute by one body again and again, as often as the model or the first number says."""
    value = _entered(graph)
    by_value = graph.chance.random() < 0.5
    turns = graph.chance.randint(1, MOST_TURNS)
    count = _turns(value) if by_value else op.constant(np.array(turns, np.int64))
    body = Body(graph, value, 2)
    output = _looped(count, value, body)

    def turned(a: Array) -> Array:
        for _ in range(int(np.mod(_first_of(a), MOST_TURNS)) if by_value else turns):
            a = body.of(a)
        return a

    told = f"loop by the first mod {MOST_TURNS}" if by_value else f"loop of {turns}"
    graph.add(told, output, turned, [value])


def _turns(value: Value) -> Any:
    flat = op.reshape(value.node, places(-1), False)
    first = op.gather(flat, place(0), place(0))
    turns = op.floor_mod(first, op.constant(np.array(MOST_TURNS, value.dtype)))
    return op.convert(turns, "i64")


def _looped(count: Any, value: Value, body: Body) -> Any:
    goes_on = op.constant(np.array([True]))
    node = op.loop(count.output(0), op.constant(np.array(True)).output(0))
    results = [op.result(goes_on), op.result(body.node)]
    model = ov.Model(results, [body.parameter], "body")
    node.set_function(model)
    node.set_special_body_ports([-1, 0])
    node.set_merged_input(body.parameter, value.node, model.results[1].output(0))
    return node.get_iter_value(model.results[1].output(0), -1)
