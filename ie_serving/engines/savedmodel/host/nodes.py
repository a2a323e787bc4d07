"""The nodes of a graph by name, for rewrites that add nodes and functions to it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.frames import name_of
from ie_serving.wire.protobuf.messages import Proto

Typed = tuple[str, int]
"""A name or a reference, and the number of its dtype."""


def data_inputs(node: Proto) -> list[str]:
    """Give a node's data inputs, without its control inputs."""
    return [reference for reference in node.input if not reference.startswith("^")]


def set_inputs(node: Proto, inputs: Iterable[str]) -> None:
    """Let a node read `inputs`, and wait for nothing else."""
    held = list(inputs)
    del node.input[:]
    node.input.extend(held)


class GraphNodes:
    """The nodes of a graph, functions left aside.

    Args of the constructor:
        graph_def: is changed.
    """

    def __init__(self, graph_def: Proto) -> None:
        self.graph_def = graph_def
        self._nodes = {node.name: node for node in graph_def.node}

    def of(self, reference: str) -> Proto:
        """Find the node that a reference means. Raises: LoadFailed, when the graph lacks it."""
        if name_of(reference) not in self._nodes:
            raise LoadFailed(
                f"the graph refers to a node {name_of(reference)!r} that it lacks"
                ": export the model again"
            )
        return self._nodes[name_of(reference)]

    def above(self, references: Iterable[str]) -> list[Proto]:
        """Give the nodes from which values are computed, also through iterations of loops.

        Control inputs count for a node without inputs, since they may select a branch.
        """
        found: dict[str, Proto] = {}
        waiting = list(references)
        while waiting:
            node = self.of(waiting.pop())
            if node.name not in found:
                found[node.name] = node
                waiting.extend(data_inputs(node) or node.input)
        return list(found.values())

    def add(self, name: str, op: str, inputs: Iterable[str] = ()) -> Proto:
        """Add a node, under a name that begins with `name`."""
        free = f"{name}_{len(self._nodes)}" if name in self._nodes else name
        node = self._nodes[free] = self.graph_def.node.add(name=free, op=op)
        node.input.extend(inputs)
        return node

    def add_function(
        self,
        name: str,
        arguments: Sequence[Typed],
        inside: Collection[str],
        given: Mapping[str, str],
        results: Sequence[Typed],
    ) -> str:
        """Add a function made of nodes of the graph; return its name.

        Its references have numbers, as in a graph: see `output_numbers.py`.

        Args:
            name: prefix of the name.
            arguments: their names, with the dtype of each.
            inside: names of the nodes that the function gets copies of.
            given: the argument that stands for a node, by its name.
            results: references in the graph to its results.
        """
        function = self.graph_def.library.function.add()
        function.signature.name = f"{name}_{len(self.graph_def.library.function)}"
        for argument, dtype in arguments:
            function.signature.input_arg.add(name=argument, type=dtype)
        for each in inside:
            copy = function.node_def.add()
            copy.CopyFrom(self._nodes[each])
            set_inputs(copy, (_inside(reference, given) for reference in data_inputs(copy)))
        for number, (reference, dtype) in enumerate(results):
            function.signature.output_arg.add(name=f"result_{number}", type=dtype)
            function.ret[f"result_{number}"] = _inside(reference, given)
        return str(function.signature.name)


def _inside(reference: str, given: Mapping[str, str]) -> str:
    name, _, number = reference.partition(":")
    return given.get(name, f"{name}:{number or 0}")
