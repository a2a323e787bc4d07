"""The writes to tables and variables of a SavedModel at load, in their order.

TensorFlow restores the variables, then runs the init op (`main_op`, `legacy_init_op`, or the
`_initialize` of resources of TensorFlow 2). OpenVINO does only the restore. This module finds the
writing nodes; `host/resources.py` evaluates them.
"""

from collections.abc import Iterator
from functools import cached_property

from ie_serving.core.values.tensors import DataType
from ie_serving.engines.savedmodel.checkpoint import Checkpoint
from ie_serving.engines.savedmodel.constants import constant
from ie_serving.engines.savedmodel.frames import CALLS, Frame, Library, NodeOutput, above, name_of
from ie_serving.engines.savedmodel.state import WRITES, StatefulFunctions
from ie_serving.wire.protobuf.messages import Proto

TABLES = frozenset({"HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2"})
VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})
RESOURCES = TABLES | VARIABLES
_UNREAD = frozenset(
    each.number for each in (DataType.BOOL, DataType.UINT16, DataType.UINT32, DataType.UINT64)
)
"""Dtypes of variables that OpenVINO's front end does not read."""
_FILLS = ("InitializeTable", "LookupTableImport")
_CARRY = ("Enter", "Merge", "RefEnter", "RefMerge", "RefSwitch", "Switch", *WRITES)
"""Prefixes of operations whose output may be the variable that is their input."""
_INIT_OP = "__saved_model_init_op"
_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")

Name = tuple[str, ...]
"""Identity of a resource: the names of the calls that lead to its node, and its own; or what it
shares."""


def resource_name(resource: NodeOutput) -> Name:
    """Name a resource: the same for each node by which TensorFlow knows it.

    A graph of TensorFlow 1 that TensorFlow 2 saves again has each table in several functions; that
    they are one, TensorFlow tells by their attributes.
    """
    attrs = resource.node.attr
    shared, container = (
        attrs[name].s.decode(errors="replace") if name in attrs else ""
        for name in ("shared_name", "container")
    )
    if shared:
        # No node has an empty name, so this is no path.
        return "", container, shared
    frame, names = resource.frame, [resource.node.name]
    if frame.detached:
        return "", "", "", *names  # a node of a loop's function, which nothing at load writes
    while frame.parent is not None:
        names.append(frame.call.name)
        frame = frame.parent
    return tuple(reversed(names))


class StateWrites:
    """The writes that running one node of the graph causes.

    Args of the constructor:
        frame: frame of the graph.
        functions: functions of the graph.
        root: name of the node; "" for none.
    """

    def __init__(self, frame: Frame, functions: StatefulFunctions, root: str) -> None:
        self.last: dict[Name, NodeOutput] = {}
        """The node that writes each resource last."""
        self._seen: dict[tuple[int, str, Name], NodeOutput | None] = {}
        for node_output in _in_order(frame, root) if root else ():
            read = node_output.sources() if node_output.node.op not in CALLS else ()
            for resource in map(NodeOutput.origin, read):
                if _is_resource(resource):
                    key = (id(node_output.frame), node_output.node.name, resource_name(resource))
                    self._seen[key] = self.last.get(resource_name(resource))
            for resource in _written(node_output, functions):
                self.last[resource_name(resource)] = node_output

    def seen_by(self, reader: NodeOutput | None, name: Name) -> NodeOutput | None:
        """Give the node that wrote a resource last when `reader` ran; of others, last of all."""
        key = (id(reader.frame), reader.node.name, name) if reader is not None else None
        return self._seen[key] if key in self._seen else self.last.get(name)


class InitialWrites:
    """The writes of the init op, and of the restore before it.

    Args of the constructor:
        meta_graph: MetaGraph of the file.
        checkpoint: checkpoint of the version; None where there is none.
    """

    def __init__(self, meta_graph: Proto, checkpoint: Checkpoint | None = None) -> None:
        self.checkpoint = checkpoint
        graph_def, self._saver = meta_graph.graph_def, meta_graph.saver_def
        self._frame = Frame(Library(graph_def), graph_def)
        self._functions = StatefulFunctions(graph_def)
        self.writes = StateWrites(self._frame, self._functions, _init_op(meta_graph))

    @cached_property
    def index(self) -> bytes | None:
        """The index of the checkpoint by names of variables, where OpenVINO needs one."""
        if self.checkpoint is None or not self.checkpoint.is_unread:
            return None
        named = {node.attr["shared_name"].s: node for node in self._frame.nodes.values()}
        found = {
            name: self.key_of(self._frame.node_output(node.name)) or self.checkpoint.keys.get(name)
            for name, node in named.items()
            if node.op == "VarHandleOp"
        }
        return self.checkpoint.index_by({name: key for name, key in found.items() if key})

    @cached_property
    def restores(self) -> StateWrites:
        """The writes of the restore, by a walk over all variables."""
        return StateWrites(self._frame, self._functions, self._saver.restore_op_name)

    def sets(self, node_output: NodeOutput) -> bool:
        """Tell whether a node output is a variable that OpenVINO does not read as it is at last."""
        if node_output.node is None or node_output.node.op not in VARIABLES:
            return False
        return resource_name(node_output) in self.writes.last or self._is_unread(node_output)

    def _is_unread(self, variable: NodeOutput) -> bool:
        attrs = variable.node.attr
        if self.checkpoint is None or variable.node.op != "VarHandleOp":
            return False
        shape = attrs["shape"].shape
        if attrs["dtype"].type in _UNREAD or shape.unknown_rank:
            return True
        if any(dim.size < 0 for dim in shape.dim):
            return True
        return bool(self.checkpoint.sliced) and self.key_of(variable) in self.checkpoint.sliced

    def key_of(self, variable: NodeOutput) -> bytes | None:
        """Name a variable's entry in the checkpoint; None where the restore sets it otherwise."""
        writer = self.restores.last.get(resource_name(variable))
        restore = [*writer.sources()][1].origin() if writer is not None else None
        if restore is None or restore.node.op != "RestoreV2":
            return None
        names = constant([*restore.sources()][1])
        return None if names is None else bytes(names.ravel()[restore.index])

    def is_of_version(self, restore: NodeOutput) -> bool:
        """Tell whether a RestoreV2 reads the variables of the version, and no other file."""
        file = next(restore.sources()).origin().node.name
        return bool(file == name_of(self._saver.filename_tensor_name))


def _init_op(meta_graph: Proto) -> str:
    signatures = meta_graph.signature_def
    if _INIT_OP in signatures:
        return next((info.name for info in signatures[_INIT_OP].outputs.values()), "")
    collections = meta_graph.collection_def
    named = [collections[name].node_list.value for name in _COLLECTIONS if name in collections]
    return next((str(node) for nodes in named for node in nodes), "")


def _in_order(frame: Frame, root: str) -> Iterator[NodeOutput]:
    """Give every node that runs when the node `root` does, each after those it waits for."""
    entered: set[tuple[int, str]] = set()
    waiting = [(frame.node_output(root), False)]
    while waiting:
        node_output, left = waiting.pop()
        if left:
            yield node_output
        elif (
            node_output.node is not None
            and (id(node_output.frame), node_output.node.name) not in entered
        ):
            entered.add((id(node_output.frame), node_output.node.name))
            waiting.append((node_output, True))
            # The last added is walked first: a function runs after all its arguments.
            if node_output.node.op in CALLS:
                inner = node_output.frame.called(node_output.node)
                waiting.extend(
                    (NodeOutput(inner, node, "", 0), False) for node in inner.nodes.values()
                )
            waiting.extend(
                (node_output.frame.node_output(each), False) for each in node_output.node.input
            )


def _written(node_output: NodeOutput, functions: StatefulFunctions) -> Iterator[NodeOutput]:
    """Give the resources that a node writes; of a loop or a branch, all that it might write."""
    if node_output.node.op.startswith((*WRITES, *_FILLS)):
        sources = list(node_output.sources())[:1]
    elif node_output.node.op not in CALLS and functions.written_by(node_output.node):
        sources = list(node_output.sources())
    else:
        return
    found = [resource for source in sources for resource in _resources(source)]
    yield from found or (each for each in above(sources) if _is_resource(each))


def _resources(source: NodeOutput) -> Iterator[NodeOutput]:
    """Give the resources behind a node output, which may come through a branch or an assignment."""
    origin = source.origin()
    if _is_resource(origin):
        yield origin
    elif origin.node.op.startswith(_CARRY):
        sources = list(origin.sources())
        for each in sources if origin.node.op.endswith("Merge") else sources[:1]:
            yield from _resources(each)


def _is_resource(node_output: NodeOutput) -> bool:
    return node_output.node is not None and node_output.node.op in RESOURCES
