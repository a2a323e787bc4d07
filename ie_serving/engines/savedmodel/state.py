"""The signatures of a SavedModel that keep state between requests.

OpenVINO computes every request separately, and its front end drops nodes that only control
dependencies run. So a signature that changes a variable would be answered from the value at load,
and so would a signature that reads such a variable. OpenVINO serves neither.
"""

from collections.abc import Iterator, Mapping

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.file import DeclaredSignature
from ie_serving.engines.savedmodel.frames import CALLS, Frame, Library, functions_of, name_of
from ie_serving.wire.protobuf.messages import Proto

WRITES = (
    "Apply",
    "Assign",
    "CountUpTo",
    "LookupTableInsert",
    "LookupTableRemove",
    "QueueDequeue",
    "QueueEnqueue",
    "ResourceApply",
    "ResourceCountUpTo",
    "ResourceScatter",
    "ResourceSparseApply",
    "ResourceStridedSliceAssign",
    "ScatterAdd",
    "ScatterDiv",
    "ScatterMax",
    "ScatterMin",
    "ScatterMul",
    "ScatterNdAdd",
    "ScatterNdSub",
    "ScatterNdUpdate",
    "ScatterSub",
    "ScatterUpdate",
    "SparseApply",
)
"""Prefixes of the types of operations that change a variable, a table or a queue, their first
input."""


RANDOM = (
    ": a random layer of Keras that is active; export the model without it, or by an ExportArchive"
    " with `lambda x: model(x, training=False)`"
)


def kept_between_requests(
    meta_graph: Proto, signatures: Mapping[str, DeclaredSignature]
) -> dict[str, str]:
    """Say why signatures cannot be computed alone; those that can are not named.

    Args:
        meta_graph: MetaGraph with the graph of all signatures.
        signatures: signatures by name.
    """
    functions = StatefulFunctions(meta_graph.graph_def)
    frame = Frame(Library(meta_graph.graph_def), meta_graph.graph_def)
    run = {name: _run_for(signature, frame) for name, signature in signatures.items()}
    changed: dict[str, tuple[str, str]] = {}
    for name, nodes in run.items():
        for node in nodes.values():
            for held, operation in _changes(node, frame, functions):
                changed.setdefault(held, (name, operation))
    return {
        name: why for name, nodes in run.items() if (why := _why_stateful(name, nodes, changed))
    }


def _why_stateful(
    name: str, nodes: Mapping[str, Proto], changed: Mapping[str, tuple[str, str]]
) -> str:
    for held in sorted(changed.keys() & nodes.keys()):
        signature, operation = changed[held]
        if signature == name:
            way_out = RANDOM if "seed_generator" in held else ""
            return (
                f"{operation} changes {held!r} for later requests; OpenVINO keeps nothing{way_out}"
            )
        return f"it depends on {held!r}, which signature {signature!r} changes ({operation})"
    return ""


def _run_for(signature: DeclaredSignature, frame: Frame) -> dict[str, Proto]:
    """Give the nodes of the graph that run for a signature, control dependencies included."""
    fed = {name_of(info.tensor) for info in signature.inputs.values()}
    waiting = [name_of(info.tensor) for info in signature.outputs.values()]
    found: dict[str, Proto] = {}
    while waiting:
        name = waiting.pop()
        # A node that is missing makes the conversion fail, with its name.
        if name in found or name in fed or name not in frame.nodes:
            continue
        found[name] = frame.nodes[name]
        waiting.extend(name_of(reference) for reference in found[name].input)
    return found


def _changes(
    node: Proto, frame: Frame, functions: "StatefulFunctions"
) -> Iterator[tuple[str, str]]:
    """Give the graph's nodes that running a node changes, each with the changing operation."""
    if node.op.startswith(WRITES):
        yield _resource_name(frame, next(iter(node.input), "")), node.op
    elif node.op in CALLS and functions.writes(node.attr["f"].func.name):
        called = frame.called(node)
        for inner in called.nodes.values():
            yield from _changes(inner, called, functions)
    elif operation := functions.written_by(node):
        # The branches of a condition and the body of a loop: whatever they are given.
        for reference in node.input:
            yield _resource_name(frame, reference), operation


def _resource_name(frame: Frame, reference: str) -> str:
    try:
        node_output = frame.node_output(reference).origin()
    except (LoadFailed, StopIteration):
        return ""
    return str(node_output.node.name) if node_output.frame.parent is None else ""


class StatefulFunctions:
    """Tells of the functions of a graph whether they, or functions they call, change state."""

    def __init__(self, graph_def: Proto) -> None:
        self._functions = {f.signature.name: f for f in graph_def.library.function}
        self._known: dict[str, str] = {}

    def writes(self, name: str) -> str:
        """Give an operation by which a function changes something; empty for none."""
        if name not in self._known:
            self._known[name] = ""  # a function that calls itself
            nodes = self._functions[name].node_def if name in self._functions else ()
            self._known[name] = next(filter(None, map(self._write_of, nodes)), "")
        return self._known[name]

    def written_by(self, node: Proto) -> str:
        """Give an operation by which the functions of a node change something."""
        return next(filter(None, map(self.writes, functions_of(node))), "")

    def _write_of(self, node: Proto) -> str:
        return str(node.op) if node.op.startswith(WRITES) else self.written_by(node)
