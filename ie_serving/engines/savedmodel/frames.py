"""Walks a graph of TensorFlow with the functions that it calls, as if they were inlined.

A *frame* is the graph itself, or one call of a function: the same function called twice gives two
frames. A *node output* is one output of one node in its frame. Following it upwards passes into a
called function through its results, and out of it through the arguments of that one call.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from ie_serving.core.values.errors import LoadFailed
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.messages import Proto, TensorShapeProto

Key = tuple[int, str, str, int]
"""Frame, node, output and index of a node output."""

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""Operations that call the function in their attribute `f`, once, argument for argument."""

PASSES_ON = frozenset(
    {
        "CheckNumerics",
        "EnsureShape",
        "Identity",
        "IdentityN",
        "PreventGradient",
        "Snapshot",
        "StopGradient",
    }
)
"""Operations whose output is their first input; of IdentityN, the input of the same number."""


def name_of(reference: str) -> str:
    """Name the node that a reference to a tensor means."""
    # "^" marks a node that is only waited for.
    return reference.removeprefix("^").partition(":")[0]


def with_port(tensor: str) -> str:
    """Give a tensor's name with its port, which graphs leave out where it is 0."""
    return tensor if ":" in tensor else f"{tensor}:0"


def functions_of(node: Proto) -> Iterator[str]:
    """Name the functions among a node's attributes."""
    for value in node.attr.values():
        yield from (each.name for each in (value.func, *value.list.func) if each.name)


def replace_references(
    nodes: Iterable[Proto], returned: MutableMapping[str, str], new: Mapping[str, str]
) -> None:
    """Let nodes, and what a function returns, refer to what `new` has for a reference."""
    for node in nodes:
        for at, reference in enumerate(node.input):
            if reference in new:
                node.input[at] = new[reference]
    # The keys stay, so the map may be changed while it is read.
    for name, reference in returned.items():
        if reference in new:
            returned[name] = new[reference]


def shape_of(proto: Proto) -> tuple[int, ...] | None:
    """Read a TensorShapeProto: -1 for an open size, None for an open rank."""
    return None if proto.unknown_rank else tuple(dim.size for dim in proto.dim)


def noted_shape(node: Proto, position: int = 0) -> Proto:
    """Give the shape that the exporter noted for an output; an open rank where it did not."""
    noted = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
    return noted[position] if position < len(noted) else TensorShapeProto(unknown_rank=True)


def write_shape(proto: Proto, sizes: Iterable[int] | None) -> None:
    """Write a TensorShapeProto; None is an open rank."""
    proto.Clear()
    if sizes is None:
        proto.unknown_rank = True
        return
    # A scalar's shape has no dimensions: without this it would not be written at all.
    proto.SetInParent()
    for size in sizes:
        proto.dim.add(size=size)


class Library:
    """The functions of one GraphDef; gives private copies of functions to change."""

    def __init__(self, graph_def: Proto) -> None:
        self._graph_def = graph_def
        self._functions = {f.signature.name: f for f in graph_def.library.function}

    def function(self, name: str) -> Proto:
        """Find a function. Raises: LoadFailed, when the file lacks it."""
        if name not in self._functions:
            raise LoadFailed(
                f"the graph calls a function {name!r} that the file lacks: export the model again"
            )
        return self._functions[name]

    def copy(self, name: str) -> Proto:
        """Add a copy of a function under a new name."""
        copy = graph.FunctionDef()
        copy.CopyFrom(self.function(name))
        copy.signature.name = f"{name}_ie_serving_{len(self._functions)}"
        self._graph_def.library.function.append(copy)
        # The list holds a copy of the appended function: that copy is the one to change.
        added = self._graph_def.library.function[-1]
        self._functions[added.signature.name] = added
        return added


class Frame:
    """The nodes of a graph, or of one call of a function.

    Args of the constructor:
        library: library of the graph.
        graph_def: graph of the outermost frame.
        parent: the frame of the call, for a function's.
        call: name of the calling node there.
    """

    def __init__(
        self,
        library: Library,
        graph_def: Proto = None,
        parent: "Frame | None" = None,
        call: str = "",
    ) -> None:
        self.library = library
        self.parent = parent
        self._call_name = call
        self._graph_def = graph_def
        self._calls: dict[str, Frame] = {}
        self.detached = False
        """Whether this is no part of the graph: the function of a loop or a branch."""
        self._private = parent is None
        self._function: Proto = None
        if parent is not None:
            self._function = library.function(self.call.attr["f"].func.name)
        self._index()

    def _index(self) -> None:
        holder = self._graph_def.node if self.parent is None else self._function.node_def
        self.nodes: dict[str, Proto] = {node.name: node for node in holder}
        self._holder = holder
        arguments = self._function.signature.input_arg if self._function is not None else ()
        self._arguments = {argument.name: i for i, argument in enumerate(arguments)}

    @property
    def call(self) -> Proto:
        """The node of the call, in the parent's frame."""
        assert self.parent is not None
        return self.parent.nodes[self._call_name]

    def called(self, node: Proto) -> "Frame":
        """Give the frame of a call."""
        if node.name not in self._calls:
            self._calls[node.name] = Frame(self.library, None, self, node.name)
        return self._calls[node.name]

    def walked(self) -> list["Frame"]:
        """Give the frames of the calls that have been looked into."""
        return list(self._calls.values())

    def node_output(self, reference: str) -> "NodeOutput":
        """Find the node output that an input of a node refers to.

        Raises:
            LoadFailed: the graph has no such node.
        """
        name, _, port = reference.removeprefix("^").partition(":")
        if name in self._arguments:
            return NodeOutput(self, None, name, 0)
        if name not in self.nodes:
            raise LoadFailed(
                f"the graph refers to a node {name!r} that it lacks: export the model again"
            )
        output, _, index = port.rpartition(":")
        return NodeOutput(self, self.nodes[name], output, int(index or 0))

    def argument_source(self, name: str) -> "NodeOutput":
        """Find the source of an argument at the call."""
        assert self.parent is not None
        return self.parent.node_output(self.call.input[self._arguments[name]])

    def returned(self, index: int) -> "NodeOutput":
        """Find the source of the function's output number `index`."""
        name = self._function.signature.output_arg[index].name
        return self.node_output(self._function.ret[name])

    def read(self) -> set[str]:
        """Give the references to what nodes read, or the function returns."""
        returned = self._function.ret.values() if self._function is not None else ()
        return {*returned, *(each for node in self._holder for each in node.input)}

    def own(self) -> None:
        """Give this call a private copy of its function, so that changing it affects no other."""
        if self._private:
            return
        assert self.parent is not None
        # First the caller: a call inside of a shared function is shared as well.
        self.parent.own()
        self._function = self.library.copy(self._function.signature.name)
        self.call.attr["f"].func.name = self._function.signature.name
        self._private = True
        self._index()

    def add_argument(self, name: str, dtype: int, shape: Proto) -> str:
        """Feed a new input of the graph to this frame; returns how nodes here refer to it.

        Each call on the way gets one argument more, the graph a placeholder called `name`.
        """
        self.own()
        if self.parent is None:
            node = self._holder.add(name=name, op="Placeholder")
            node.attr["dtype"].type = dtype
            node.attr["shape"].shape.CopyFrom(shape)
            self.nodes[name] = node
            return name
        source = self.parent.add_argument(name, dtype, shape)
        call = self.call
        at = len(call.input)
        while at and call.input[at - 1].startswith("^"):
            at -= 1  # nodes that are only waited for come last in a node's inputs
        call.input.insert(at, source)
        call.attr["Tin"].list.type.append(dtype)
        self._function.signature.input_arg.add(name=name, type=dtype)
        self._arguments[name] = len(self._arguments)
        return name

    def add_constant(self, name: str, tensor: Proto) -> str:
        """Add a Const that holds a TensorProto; returns how nodes here refer to it."""
        self.own()
        if name not in self.nodes:
            node = self._holder.add(name=name, op="Const")
            node.attr["dtype"].type = tensor.dtype
            node.attr["value"].tensor.CopyFrom(tensor)
            self.nodes[name] = node
        # Inside of functions a reference names the output, which is `output` in Const.
        return name if self.parent is None else f"{name}:output:0"

    def give_out(self, reference: str, dtype: int) -> str:
        """Pass the value of `reference` through every call up to the graph; give its name there."""
        if self.parent is None:
            return reference
        self.own()
        index = len(self._function.signature.output_arg)
        name = f"ie_serving_out_{index}"
        self._function.signature.output_arg.add(name=name, type=dtype)
        self._function.ret[name] = reference
        self.call.attr["Tout"].list.type.append(dtype)
        # Calls name their only output group `output` inside of functions, and number it outside.
        inside = self.parent.parent is not None
        own = f"{self._call_name}:output:{index}" if inside else f"{self._call_name}:{index}"
        return self.parent.give_out(own, dtype)

    def outputs(self) -> Iterator[tuple[str, "NodeOutput"]]:
        """Give the outputs of the function, by their names; none for the graph itself."""
        arguments = self._function.signature.output_arg if self._function is not None else ()
        for argument in arguments:
            yield argument.name, self.node_output(self._function.ret[argument.name])

    def return_instead(self, output: str, reference: str) -> None:
        """Let the function return `reference` as one of its outputs."""
        self.own()
        self._function.ret[output] = reference

    def replace(self, new: Mapping[str, str]) -> None:
        """Let everything that refers to an output refer to what `new` has for it."""
        returned = {} if self._function is None else self._function.ret
        replace_references(self._holder, returned, new)

    def remove(self, name: str) -> None:
        """Take a node out; nothing reads it any more, and nothing waits for it."""
        for at, node in enumerate(self._holder):
            if node.name == name:
                del self._holder[at]
                break
        for node in self._holder:
            for at in reversed(range(len(node.input))):  # each deletion moves those behind it
                if node.input[at] == f"^{name}":
                    del node.input[at]
        self._index()


def standing_alone(library: Library, name: str) -> tuple[Frame, list[str], list["NodeOutput"]]:
    """Give a function that a loop or branch calls as a separate graph.

    Returns:
        The frame, the names of the arguments, which are placeholders there, and the results.
    """
    function = library.function(name)
    graph_def = graph.GraphDef()
    for argument in function.signature.input_arg:
        placeholder = graph_def.node.add(name=argument.name, op="Placeholder")
        placeholder.attr["dtype"].type = argument.type
    graph_def.node.extend(function.node_def)
    frame = Frame(library, graph_def)
    frame.detached = True
    returned = [
        frame.node_output(function.ret[each.name]) for each in function.signature.output_arg
    ]
    return frame, [argument.name for argument in function.signature.input_arg], returned


@dataclass(frozen=True)
class NodeOutput:
    """One output of one node.

    Attributes:
        frame: frame of the node.
        node: the NodeDef; None for an argument of the frame's function.
        output: the argument's name, or the name of the output inside of functions.
        index: number of the output, inside of `output` where that is not empty.
    """

    frame: Frame
    node: Proto
    output: str
    index: int

    def sources(self) -> Iterator["NodeOutput"]:
        """Give the node outputs from which this one is computed directly."""
        if self.node is None:
            yield self.frame.argument_source(self.output)
        elif self.node.op in CALLS:
            yield self.frame.called(self.node).returned(self.index)
        else:
            for reference in self.node.input:
                if not reference.startswith("^"):
                    yield self.frame.node_output(reference)

    def origin(self) -> "NodeOutput":
        """Follow calls, arguments and identities up to the node that computes the value."""
        node_output = self
        while (
            node_output.node is None
            or node_output.node.op in CALLS
            or node_output.node.op in PASSES_ON
        ):
            if node_output.node is not None and node_output.node.op == "IdentityN":
                node_output = node_output.frame.node_output(
                    node_output.node.input[node_output.index]
                )
            else:
                node_output = next(node_output.sources())
        return node_output

    @property
    def key(self) -> "Key":
        """Two with one key are the same."""
        name = "" if self.node is None else self.node.name
        return id(self.frame), name, self.output, self.index


def above(node_outputs: list[NodeOutput]) -> Iterator[NodeOutput]:
    """Give all from which `node_outputs` are computed, themselves included, each node once."""
    # A work list, since graphs are deeper than Python's recursion limit.
    seen: set[Key] = set()
    followed: set[tuple[int, str]] = set()
    waiting = list(node_outputs)
    while waiting:
        node_output = waiting.pop()
        if node_output.key in seen:
            continue
        seen.add(node_output.key)
        yield node_output
        if node_output.node is not None and node_output.node.op not in CALLS:
            # All outputs of a node have its sources: a parser of Examples has thousands of both.
            node = id(node_output.frame), node_output.node.name
            if node in followed:
                continue
            followed.add(node)
        waiting.extend(node_output.sources())
