"""Rewrite: turns loops and branches of TensorFlow 1 into `While` and `If` with functions.

`tf.while_loop` once wrote a loop into the graph itself, with these nodes for each of its variables:

    first -> Enter -> Merge -----> Switch -> Exit -> what the loop gives
                      ^    |       |  ^
                      |    v       |  |
                      |  condition -> LoopCond (one for all)
                      |            v
                      NextIteration <- body

A value from outside that never changes comes in through an Enter alone. `tf.cond` wrote a Switch
for each value that a branch reads, whose output 0 is alive in one branch and 1 in the other, and a
Merge for each result. `tensor_arrays.py` handles the rows of `tf.map_fn`.

TensorFlow's own name for this rewrite is "functionalize control flow"
(compiler/tf2xla/functionalize_control_flow.cc). Other forms stay unchanged.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import DataType, without_port
from ie_serving.engines.savedmodel.frames import PASSES_ON, Library, name_of, noted_shape
from ie_serving.engines.savedmodel.host.needs import on_host
from ie_serving.engines.savedmodel.host.nodes import GraphNodes, Typed, data_inputs, set_inputs
from ie_serving.engines.savedmodel.host.tensor_arrays import lists_for_arrays
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.messages import Proto

_OF_FRAMES = frozenset({"Enter", "LoopCond", "NextIteration", "Switch"})
_DEEPEST = 50
"""Loops and branches within one another that are rewritten. Each takes Python a few calls, and
a hostile file could have any number."""

EndsFrame = Callable[[str, Proto], bool]
"""Tells for a reference and its node whether it is given from outside."""


def functional(graph_def: Proto, outputs: Iterable[str]) -> Proto | None:
    """Rewrite the loops and branches above `outputs`, if the host has to run one of them.

    Args:
        graph_def: stays as it is.
        outputs: tensors of the graph.

    Returns:
        A changed copy; None where OpenVINO runs all loops, or one has not the form above.
    """
    changed = graph.GraphDef()
    changed.CopyFrom(graph_def)
    wanted = list(outputs)
    nodes = GraphNodes(changed)
    try:
        lists_for_arrays(nodes, nodes.above(wanted))
        _GraphRewrite(nodes, nodes.above(wanted)).region(wanted)
        found = nodes.above(wanted)
    except (LoadFailed, LookupError, ValueError):  # the last two where a node lacks inputs
        return None
    library = Library(changed)
    rewritten = (node for node in found if node.op.startswith(("If", "TensorList", "While")))
    return changed if any(on_host(node, library) for node in rewritten) else None


class _GraphRewrite:
    """A graph on its way.

    Args of the constructor:
        nodes: nodes of the graph.
        read: nodes that the signature needs.
    """

    def __init__(self, nodes: GraphNodes, read: Iterable[Proto]) -> None:
        self.nodes = nodes
        self._depth = 0
        self._exits: dict[str, list[Proto]] = {}
        for node in read:
            if node.op == "Exit":
                gate = name_of(nodes.of(node.input[0]).input[1])
                self._exits.setdefault(gate, []).append(node)

    def region(
        self, targets: Iterable[str], ends: EndsFrame = lambda reference, node: False
    ) -> list[str]:
        """Rewrite all loops and branches above `targets`, and name the nodes there, up to `ends`.

        Raises:
            LoadFailed: one has not the form that TensorFlow writes.
        """
        found: dict[str, None] = {}
        waiting = list(targets)
        while waiting:
            reference = waiting.pop()
            node = self.nodes.of(reference)
            if ends(reference, node) or node.name in found:
                continue
            self._rewrite(node)
            found[node.name] = None
            waiting.extend(data_inputs(node))
        return list(found)

    def _rewrite(self, node: Proto) -> None:
        if node.op in _OF_FRAMES:
            raise _unknown(node)
        if node.op not in ("Exit", "Merge"):
            return
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _unknown(node)
        if node.op == "Exit":
            gate = name_of(self.nodes.of(node.input[0]).input[1])
            _Loop(self, gate).replace(self._exits[gate])
        else:
            _Branches(self, node).replace()
        self._depth -= 1


class _Loop:
    """A loop.

    Args of the constructor:
        rewriting: rewriting of its graph.
        gate: name of its LoopCond.
    """

    def __init__(self, rewriting: _GraphRewrite, gate: str) -> None:
        self._nodes = rewriting.nodes
        self._region = partial(rewriting.region, ends=self._is_given)
        self._gate = self._nodes.of(gate)
        if self._gate.op != "LoopCond":
            raise _unknown(self._gate)
        self._merges: list[Proto] = []
        self._enters: list[Proto] = []
        self._given: dict[str, str] = {}

    def replace(self, exits: Sequence[Proto]) -> None:
        """Let readers of the loop's results read those of a While."""
        for each in exits:
            self._is_given(f"{each.input[0]}:1", self._nodes.of(each.input[0]))
        self._region([self._gate.input[0]])
        # A turn may read variables that nothing was known of: they are added while this goes on.
        for merge in self._merges:
            self._region([self._next(merge)])
        loop = self._made()
        for each in exits:
            number = self._merges.index(self._nodes.of(self._nodes.of(each.input[0]).input[0]))
            _become_identity(each, f"{loop.name}:{number}")

    def _is_given(self, reference: str, node: Proto) -> bool:
        if node.op == "Enter":
            self._add_invariant(node)
        elif node.op == "Merge" and self._is_variable(node):
            self._add_variable(node)
        elif node.op == "Switch" and name_of(node.input[1]) == self._gate.name:
            if not reference.endswith(":1"):
                raise _unknown(node)
            merge = self._nodes.of(node.input[0])
            self._add_variable(merge)
            self._given[node.name] = self._given[merge.name]
        else:
            return False
        return True

    def _is_variable(self, merge: Proto) -> bool:
        return any(self._nodes.of(each).op == "NextIteration" for each in data_inputs(merge))

    def _add_invariant(self, enter: Proto) -> None:
        if enter.name not in self._given:
            if not enter.attr["is_constant"].b:
                raise _unknown(enter)
            self._given[enter.name] = f"ie_serving_invariant_{len(self._enters)}"
            self._enters.append(enter)

    def _add_variable(self, merge: Proto) -> None:
        if merge.name not in self._given:
            ops = [self._nodes.of(each).op for each in data_inputs(merge)]
            if merge.op != "Merge" or ops != ["Enter", "NextIteration"]:
                raise _unknown(merge)
            self._given[merge.name] = f"ie_serving_variable_{len(self._merges)}"
            self._merges.append(merge)

    def _next(self, merge: Proto) -> str:
        return str(self._nodes.of(merge.input[1]).input[0])

    def _made(self) -> Proto:
        """Add the While, whose inputs are the variables, then what does not change."""
        enters = [*(self._nodes.of(merge.input[0]) for merge in self._merges), *self._enters]
        frames = {each.attr["frame_name"].s.decode(errors="replace") for each in enters}
        if len(frames) != 1:
            raise _unknown(self._gate)
        loop = self._nodes.add(frames.pop(), "While", (each.input[0] for each in enters))
        loop.attr["T"].list.type.extend(each.attr["T"].type for each in enters)
        _note_shapes(loop, [*self._merges, *self._enters])
        later = [*map(self._next, self._merges), *(each.name for each in self._enters)]
        self._add_function(loop, "cond", [(str(self._gate.input[0]), DataType.BOOL.number)])
        self._add_function(loop, "body", self._typed(later, loop))
        return loop

    def _add_function(self, loop: Proto, part: str, results: Sequence[Typed]) -> None:
        held = [self._given[each.name] for each in (*self._merges, *self._enters)]
        inside = self._region([reference for reference, _ in results])
        loop.attr[part].func.name = self._nodes.add_function(
            f"{loop.name}_{part}", self._typed(held, loop), inside, self._given, results
        )

    def _typed(self, names: Iterable[str], loop: Proto) -> list[Typed]:
        return list(zip(names, loop.attr["T"].list.type, strict=True))


class _Branches:
    """A result of `tf.cond`.

    Args of the constructor:
        rewriting: rewriting of its graph.
        merge: the node that gives it.
    """

    def __init__(self, rewriting: _GraphRewrite, merge: Proto) -> None:
        self._rewriting = rewriting
        self._nodes = rewriting.nodes
        self._merge = merge
        self._switches: dict[str, Proto] = {}

    def replace(self) -> None:
        """Let the result be read from an If."""
        merge = self._merge
        results = data_inputs(merge)
        if len(results) != 2 or _reads(self._nodes, f"{merge.name}:1"):
            raise _unknown(merge)
        sides = [self._side(result) for result in results]
        conditions = {condition for condition, _, _ in sides}
        if len(conditions) != 1 or {alive for _, alive, _ in sides} != {0, 1}:
            raise _unknown(merge)
        branches = {
            alive: (result, inside)
            for result, (_, alive, inside) in zip(results, sides, strict=True)
        }
        _become_identity(merge, self._made(conditions.pop(), branches).name)

    def _side(self, result: str) -> tuple[str, int, list[str]]:
        """Give the condition of a branch, for which of its values it runs, and its nodes."""
        met: list[str] = []

        def is_given(reference: str, node: Proto) -> bool:
            if node.op == "Switch":
                met.append(reference)
                self._switches[node.name] = node
            return bool(node.op == "Switch")

        inside = self._rewriting.region([result], is_given)
        # A branch that reads nothing from outside has nodes that wait for it.
        found = {self._alive(each) for each in met or self._waited_for(inside)}
        if len(found) != 1:
            raise _unknown(self._merge)
        return *found.pop(), inside

    def _alive(self, reference: str) -> tuple[str, int]:
        switch = self._nodes.of(reference)
        condition = self._origin(switch.input[1])
        if self._nodes.of(condition).op == "LoopCond":
            raise _unknown(switch)
        return condition, int(reference.partition(":")[2] or 0)

    def _waited_for(self, names: Iterable[str]) -> Iterable[str]:
        for name in names:
            for each in self._nodes.of(name).input:
                pivot = self._origin(name_of(each))
                if each.startswith("^") and self._nodes.of(pivot).op == "Switch":
                    yield pivot

    def _origin(self, reference: str) -> str:
        while self._nodes.of(reference).op in PASSES_ON - {"IdentityN"}:
            reference = self._nodes.of(reference).input[0]
        return without_port(str(reference))

    def _made(self, condition: str, branches: dict[int, tuple[str, list[str]]]) -> Proto:
        """Add the If. Args: branches: result and nodes, by the condition's value."""
        read = list(self._switches.values())
        name, inputs = f"{self._merge.name}/If", (each.input[0] for each in read)
        made = self._nodes.add(name, "If", [condition, *inputs])
        made.attr["Tin"].list.type.extend(each.attr["T"].type for each in read)
        made.attr["Tout"].list.type.append(self._merge.attr["T"].type)
        made.attr["Tcond"].type = DataType.BOOL.number
        _note_shapes(made, [self._merge])
        self._add_function(made, "then_branch", *branches[1])
        self._add_function(made, "else_branch", *branches[0])
        return made

    def _add_function(self, made: Proto, part: str, result: str, inside: list[str]) -> None:
        given = {name: f"ie_serving_given_{at}" for at, name in enumerate(self._switches)}
        arguments = list(zip(given.values(), made.attr["Tin"].list.type, strict=True))
        results = [(result, self._merge.attr["T"].type)]
        made.attr[part].func.name = self._nodes.add_function(
            f"{made.name}_{part}", arguments, inside, given, results
        )


def _become_identity(node: Proto, reference: str) -> None:
    """Let a node pass on a value."""
    node.op = "Identity"
    set_inputs(node, [reference])


def _note_shapes(node: Proto, alike: Iterable[Proto]) -> None:
    """Note for each output of a node the shape that the exporter noted for the same value."""
    for each in alike:
        node.attr["_output_shapes"].list.shape.append(noted_shape(each))


def _reads(nodes: GraphNodes, reference: str) -> bool:
    return any(reference in node.input for node in nodes.graph_def.node)


def _unknown(node: Proto) -> LoadFailed:
    return LoadFailed(
        f"{node.op} {node.name!r} is in no loop or branch of TensorFlow: export it again"
    )
