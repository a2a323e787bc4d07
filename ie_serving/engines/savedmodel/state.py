"""Which signatures keep something from one request to the next: counters, tables, queues.

OpenVINO computes every request alone, and its front end drops what only control dependencies run.
So a signature that changes a variable would be answered from the value at load, and so would one
that only reads what another changes. Neither is served by it.
"""

from collections.abc import Iterator, Mapping

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.file import Declared
from ie_serving.engines.savedmodel.frames import CALLS, Frame, Library
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
"""How operations begin that change a variable, a table or a queue, their first input."""


def kept_between_requests(meta_graph: Proto, signatures: Mapping[str, Declared]) -> dict[str, str]:
    """Say why signatures cannot be computed alone; those that can are not named.

    Args:
        meta_graph: with the graph of all signatures.
        signatures: by name.
    """
    functions = Functions(meta_graph.graph_def)
    frame = Frame(Library(meta_graph.graph_def), meta_graph.graph_def)
    run = {name: _run_for(signature, frame) for name, signature in signatures.items()}
    changed: dict[str, tuple[str, str]] = {}
    for name, nodes in run.items():
        for node in nodes.values():
            for held, operation in _changes(node, frame, functions):
                changed.setdefault(held, (name, operation))
    return {name: why for name, nodes in run.items() if (why := _why(name, nodes, changed))}


def _why(name: str, nodes: Mapping[str, Proto], changed: Mapping[str, tuple[str, str]]) -> str:
    for held in sorted(changed.keys() & nodes.keys()):
        signature, operation = changed[held]
        if signature == name:
            return f"{operation} changes {held!r} for later requests; OpenVINO keeps nothing"
        return f"it depends on {held!r}, which signature {signature!r} changes ({operation})"
    return ""


def _run_for(signature: Declared, frame: Frame) -> dict[str, Proto]:
    """Give the nodes of the graph that run for a signature, control dependencies included."""
    fed = {_node(info.tensor) for info in signature.inputs.values()}
    waiting = [_node(info.tensor) for info in signature.outputs.values()]
    found: dict[str, Proto] = {}
    while waiting:
        name = waiting.pop()
        # A node that is missing makes the conversion fail, with its name.
        if name in found or name in fed or name not in frame.nodes:
            continue
        found[name] = frame.nodes[name]
        waiting.extend(_node(reference) for reference in found[name].input)
    return found


def _node(reference: str) -> str:
    return reference.removeprefix("^").partition(":")[0]


def _changes(node: Proto, frame: Frame, functions: "Functions") -> Iterator[tuple[str, str]]:
    """Give what running a node changes, by the name of the graph's node, and by which operation."""
    if node.op.startswith(WRITES):
        yield _held(frame, next(iter(node.input), "")), node.op
    elif node.op in CALLS and functions.writes(node.attr["f"].func.name):
        called = frame.called(node)
        for inner in called.nodes.values():
            yield from _changes(inner, called, functions)
    elif operation := functions.written_by(node):
        # The branches of a condition and the body of a loop: whatever they are given.
        for reference in node.input:
            yield _held(frame, reference), operation


def _held(frame: Frame, reference: str) -> str:
    try:
        place = frame.place(reference).origin()
    except (LoadFailed, StopIteration):
        return ""
    return str(place.node.name) if place.frame.parent is None else ""


class Functions:
    """The functions of a graph: does one, or what it calls, change anything?"""

    def __init__(self, graph_def: Proto) -> None:
        self._functions = {f.signature.name: f for f in graph_def.library.function}
        self._known: dict[str, str] = {}

    def writes(self, name: str) -> str:
        """Give an operation by which a function changes something; empty for none."""
        if name not in self._known:
            self._known[name] = ""  # a function that calls itself
            nodes = self._functions[name].node_def if name in self._functions else ()
            self._known[name] = next(filter(None, map(self._own, nodes)), "")
        return self._known[name]

    def written_by(self, node: Proto) -> str:
        """Give an operation by which the functions of a node change something."""
        for value in node.attr.values():
            for called in (value.func, *value.list.func):
                if called.name and (operation := self.writes(called.name)):
                    return operation
        return ""

    def _own(self, node: Proto) -> str:
        return str(node.op) if node.op.startswith(WRITES) else self.written_by(node)
