"""Rewrite: functions that hold loops or branches of TensorFlow 1 are written into the graph.

A graph of TensorFlow 1 that TensorFlow 2 loaded and saved again lies in functions that call one
another, with its loops and branches as they were. `functional.py` finds them among the nodes of the
graph alone. So each call of such a function becomes copies of the function's nodes, as TensorFlow
itself does before it runs them:

    x -> PartitionedCall(argument -> Enter -> Merge ... -> result) -> y
    x -> PartitionedCall/Enter -> PartitionedCall/Merge ... -> y

Calls of other functions stay.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ie_serving.engines.savedmodel.frames import CALLS, Library, name_of, with_port
from ie_serving.engines.savedmodel.host.needs import FIRST_FORM
from ie_serving.engines.savedmodel.host.nodes import GraphNodes, data_inputs, set_inputs
from ie_serving.engines.savedmodel.output_numbers import Numbers
from ie_serving.engines.savedmodel.rewrite import PreparedGraph, own_frame
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.messages import Proto

Meanings = dict[str, str]
"""The sources of removed calls' outputs: references by `call:number`."""


def write_loops_out(prepared: PreparedGraph, meta_graph: Proto) -> None:
    """Inline calls that lead to a loop or branch of TensorFlow 1 above a signature's outputs."""
    own_frame(prepared, meta_graph)
    tensors = [info.tensor for info in prepared.outputs.values()]
    tensors = inline(prepared.graph_def, tensors, Numbers(meta_graph))
    prepared.outputs = {
        alias: replace(info, tensor=tensor)
        for (alias, info), tensor in zip(prepared.outputs.items(), tensors, strict=True)
    }


def inline(graph_def: Proto, outputs: Iterable[str], numbers: Numbers) -> list[str]:
    """Inline in place, above `outputs`, all calls that lead to a loop or branch of TensorFlow 1.

    Args:
        graph_def: is changed.
        outputs: tensors of the graph, each with its number.
        numbers: numbers of the outputs of its operations.

    Returns:
        The names of `outputs` in the changed graph.
    """
    library = Library(graph_def)
    wanted = list(outputs)
    while True:
        # Again until none is left: an inlined function may itself call such functions.
        above = GraphNodes(graph_def).above(wanted)
        calls = [node for node in above if _leads_to_first_form(node, library)]
        if not calls:
            return wanted
        gone: Meanings = {}
        for call in calls:
            gone |= _write_out(graph_def, call, library, numbers)
        _remove(graph_def, {call.name for call in calls})
        for node in graph_def.node:
            set_inputs(node, [_now(each, gone).removesuffix(":0") for each in node.input])
        wanted = [_now(reference, gone) for reference in wanted]


def _leads_to_first_form(node: Proto, library: Library) -> bool:
    """Tell whether a node reads from a function in which, or below which, there is such a loop."""
    seen: set[str] = set()
    waiting = [node] if "Tout" in node.attr and node.attr["Tout"].list.type else []
    while waiting:
        each = waiting.pop()
        if each.op not in CALLS or each.attr["f"].func.name in seen:
            continue
        seen.add(each.attr["f"].func.name)
        inside = library.function(each.attr["f"].func.name).node_def
        if any(inner.op.startswith(FIRST_FORM) for inner in inside):
            return True
        waiting.extend(inside)
    return False


def _write_out(graph_def: Proto, call: Proto, library: Library, numbers: Numbers) -> Meanings:
    """Add the nodes of a called function to the graph; return the sources of the call's outputs."""
    function = library.function(call.attr["f"].func.name)
    inside = _InlinedCall(function, call, _free_prefix(graph_def, call.name), numbers)
    graph_def.node.extend(inside.copies())
    results = (function.ret[each.name] for each in function.signature.output_arg)
    return {f"{call.name}:{at}": inside.outside(each) for at, each in enumerate(results)}


def _free_prefix(graph_def: Proto, name: str) -> str:
    # Two nodes of a graph may not have one name.
    while any(node.name.startswith(f"{name}/") for node in graph_def.node):
        name += "_"
    return name


class _InlinedCall:
    """A function at one of its calls.

    Args of the constructor:
        function: its definition.
        call: the node.
        prefix: prefix of the names of its nodes in the graph.
        numbers: numbers of the outputs of operations.
    """

    def __init__(self, function: Proto, call: Proto, prefix: str, numbers: Numbers) -> None:
        self._nodes: Mapping[str, Proto] = {node.name: node for node in function.node_def}
        names = (argument.name for argument in function.signature.input_arg)
        self._arguments: Mapping[str, str] = dict(zip(names, data_inputs(call), strict=False))
        self._waited_for = [each for each in call.input if each.startswith("^")]
        self._prefix = prefix
        self._numbers = numbers

    def copies(self) -> Iterator[Proto]:
        """Give the nodes as they are in the graph."""
        for node in self._nodes.values():
            copy = graph.NodeDef()
            copy.CopyFrom(node)
            copy.name = f"{self._prefix}/{node.name}"
            # A node without inputs waits for the call's control inputs, which may select a branch.
            set_inputs(copy, map(self.outside, node.input) if node.input else self._waited_for)
            yield copy

    def outside(self, reference: str) -> str:
        """Translate a reference in the function to a reference in the graph."""
        name = name_of(reference)
        if reference.startswith("^"):
            given = self._arguments.get(name)
            return f"^{self._prefix}/{name}" if given is None else f"^{name_of(given)}"
        if name in self._arguments:
            return self._arguments[name]
        number = self._numbers.of(self._nodes[name], reference.partition(":")[2])
        return f"{self._prefix}/{name}:{number}"


def _remove(graph_def: Proto, names: set[str]) -> None:
    kept = [node for node in graph_def.node if node.name not in names]
    del graph_def.node[:]
    graph_def.node.extend(kept)


def _now(reference: str, gone: Meanings) -> str:
    """Write a reference without the calls that are gone, through those that pass on another's."""
    if reference.startswith("^"):
        meant = _now(f"{name_of(reference)}:0", gone)
        return reference if meant == f"{name_of(reference)}:0" else f"^{name_of(meant)}"
    while (full := with_port(reference)) in gone:
        reference = gone[full]
    return reference
