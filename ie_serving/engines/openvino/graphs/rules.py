"""Rules against OpenVINO's faults, and the walk that applies them to the operations of a graph.

A rule names the canaries that show its fault, the operations it applies to, and its action: it
changes the graph, gives flags by which requests are refused, or refuses the model.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

import openvino as ov

from ie_serving.engines.openvino.graphs.constants import Operand, output_of
from ie_serving.engines.openvino.graphs.walk import Flag, bodies, operations

Does = TypeVar("Does", bound=Callable[..., object])


@dataclass(frozen=True)
class Rule(Generic[Does]):
    """The action against a fault of OpenVINO.

    Attributes:
        faults: names of the canaries in `tests/canaries` that show it, separated by blanks.
        kinds: types of the operations it applies to, separated by blanks; empty for all.
        do: the action on each operation; the caller defines its arguments and its result.
    """

    faults: str
    kinds: str
    do: Does


class Rules(Generic[Does]):
    """Groups of rules in the order of their use, found by the type of an operation."""

    def __init__(self, *groups: Iterable[Rule[Does]]) -> None:
        self.groups = [tuple(group) for group in groups]
        numbered = [(index, rule) for index, group in enumerate(self.groups) for rule in group]
        self._of_others = [pair for pair in numbered if not pair[1].kinds]
        self._by_kind = {
            kind: [pair for pair in numbered if kind in (pair[1].kinds or kind).split()]
            for kind in {kind for _, rule in numbered for kind in rule.kinds.split()}
        }

    def of(self, node: ov.Node) -> Sequence[tuple[int, Rule[Does]]]:
        """Give the rules for an operation, each behind the number of its group."""
        rules = self._by_kind.get(node.get_type_name())
        return self._of_others if rules is None else rules


@dataclass
class Visit:
    """The context of a rule: facts about the visited graph or body, and the rule's notes.

    Attributes:
        model: the graph.
        from_end: whether the model's framework is as ONNX, where negative indices count from the
            end and a `Range` in the wrong direction is empty; TensorFlow refuses both.
        sources: names of the operations whose outputs follow from the values of a request.
        rounds: counts of rounds that the graph makes; see `faults/ranges.py`.
        inner: the visits of the bodies of the operation that is visited now.
        flags: the rules' results, group by group, once the visit has ended.
    """

    model: ov.Model
    from_end: bool
    sources: set[str] = field(default_factory=set)
    rounds: list[ov.Node] = field(default_factory=list)
    inner: Sequence["Visit"] = ()
    flags: list[Flag] = field(default_factory=list)


Ask: TypeAlias = Callable[[ov.Node, Visit], "Iterable[Flag] | None"]
"""The action of a rule on an operation; it may raise LoadFailed."""


def visit(model: ov.Model, rules: Rules[Ask], *, from_end: bool = True) -> Visit:
    """Apply the rules to each operation after its inputs, and after those of its bodies.

    Operations that rules add to the graph are not visited.

    Raises:
        LoadFailed: as a rule does.
    """
    here = Visit(model, from_end)
    flags: list[list[Flag]] = [[] for _ in rules.groups]
    for node in operations(model):
        here.inner = [visit(body, rules, from_end=from_end) for body in bodies(node)]
        for group, rule in rules.of(node):
            flags[group].extend(rule.do(node, here) or ())
    here.flags = list(chain.from_iterable(flags))
    return here


SOURCES = frozenset({"Parameter", "ReadValue"})


def note_source(node: ov.Node, here: Visit) -> None:
    """Note the operation if its outputs do; inputs of a body count as such.

    This rule comes first: operations that other rules insert hide the source of the values.
    """
    kind = node.get_type_name()
    inputs = range(node.get_input_size())
    if kind in SOURCES or (
        kind != "ShapeOf" and any(is_among(here.sources, node, i) for i in inputs)
    ):
        here.sources.add(str(node.get_name()))


def is_among(sources: Collection[str], node: ov.Node, number: int) -> bool:
    """Tell whether an operation has an input with a number, and it was noted."""
    has = number < node.get_input_size()
    return has and node.input_value(number).get_node().get_name() in sources


def replace(old: ov.Output, made: ov.Output) -> None:
    """Let all that read `old` read `made`, which takes its names."""
    put_behind(old, lambda _: made)


def replace_node(node: ov.Node, made: ov.Node) -> None:
    """Let all that read the outputs of an operation read those of another, which takes its name."""
    made.set_friendly_name(node.get_friendly_name())
    for old, new in zip(node.outputs(), made.outputs(), strict=True):
        replace(old, new)


def put_behind(output: ov.Output, make: Callable[[ov.Output], Operand]) -> None:
    """Make all readers of an output read a derived output instead, which takes its names."""
    readers, names = list(output.get_target_inputs()), output.get_names()
    made = output_of(make(output))
    output.set_names(set())
    made.set_names(names)
    for reader in readers:
        reader.replace_source_output(made)
