"""A graph as it is written: steps that take tensors of the request and of each other.

`reading.py` makes these of JSON, `planning.py` holds them against the models, `run.py` runs them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ie_serving.core.requests import ModelSpec
from ie_serving.core.tensors import TensorSpec
from ie_serving.engines.graph.condition import Condition

REQUEST = "request"
"""In place of a step's name: what the client sends."""

ITEM = "item"
"""In place of a step's name: an entry of what `for_each` names."""


@dataclass(frozen=True, slots=True)
class Ref:
    """One tensor: an item of a step, or of the request. Written `step.item`."""

    step: str
    item: str

    def __str__(self) -> str:
        return f"{self.step}.{self.item}"


@dataclass(frozen=True, kw_only=True)
class Step:
    """What all kinds of steps have.

    Attributes:
        name: by which others refer to it.
        when: it is skipped unless this holds.
        fallback: step whose items are taken where this one fails; empty for none.
    """

    name: str
    when: Condition | None = None
    tested: Ref | None = None
    """What `when` looks at."""

    fallback: str = ""

    @property
    def reads(self) -> tuple[Ref, ...]:
        """Tensors that it takes."""
        return ()

    @property
    def asks(self) -> tuple[str, ...]:
        """Steps whose items it takes as they are, all of them or one of them."""
        return ()

    @property
    def needs(self) -> frozenset[str]:
        """Every step that it may wait for."""
        named = {*self.asks, self.fallback, *(ref.step for ref in self.reads)}
        if self.tested:
            named.add(self.tested.step)
        return frozenset(named - {"", REQUEST})


@dataclass(frozen=True, kw_only=True)
class ModelStep(Step):
    """A served model.

    Attributes:
        model: which, and which signature of it.
        inputs: what each input of the model is filled with.
        sources: steps whose items of the same name fill the other inputs, the first that has one.
        outputs: output of the model by the item's name; empty takes all under their own names.
        split: inputs of which each entry along the first dimension is an inference of its own.
        timeout_s: how long an inference may take; 0 sets no limit.
        retries: how often one that fails is tried again.
    """

    model: ModelSpec
    inputs: Mapping[str, Ref] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    split: frozenset[str] = frozenset()
    timeout_s: float = 0.0
    retries: int = 0

    @cached_property
    def taken(self) -> frozenset[str]:
        """The outputs of the model that are taken."""
        return frozenset(self.outputs.values())

    @property
    def reads(self) -> tuple[Ref, ...]:
        """See `Step`."""
        return tuple(self.inputs.values())

    @property
    def asks(self) -> tuple[str, ...]:
        """See `Step`."""
        return self.sources


@dataclass(frozen=True, kw_only=True)
class SwitchStep(Step):
    """The items of one of several steps; only that one runs.

    Attributes:
        on: whose value is looked up in `cases`; None where `weights` choose.
        cases: step by the value, as text.
        default: step of every other value; empty refuses those.
        weights: step by its share of the requests.
        sticky: equal values of this go to the same step; None chooses for each request.
    """

    on: Ref | None = None
    cases: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    weights: Mapping[str, int] = field(default_factory=dict)
    sticky: Ref | None = None

    @property
    def reads(self) -> tuple[Ref, ...]:
        """See `Step`."""
        return tuple(ref for ref in (self.on, self.sticky) if ref)

    @property
    def asks(self) -> tuple[str, ...]:
        """See `Step`."""
        named = (*self.cases.values(), self.default, *self.weights)
        return tuple(dict.fromkeys(name for name in named if name))


@dataclass(frozen=True, kw_only=True)
class MergeStep(Step):
    """The items of several steps together.

    Attributes:
        of: the steps.
        on_conflict: `last` lets the later step have a name that several give, `prefix` puts each
            step's name and a dot before its items; empty refuses the graph.
        combine: `mean` or `max` of the items of the same name; empty for neither.
    """

    of: tuple[str, ...]
    on_conflict: str = ""
    combine: str = ""

    @property
    def asks(self) -> tuple[str, ...]:
        """See `Step`."""
        return self.of


@dataclass(frozen=True, kw_only=True)
class AnyStep(Step):
    """The items of the first of several steps that is not skipped."""

    of: tuple[str, ...]

    @property
    def asks(self) -> tuple[str, ...]:
        """See `Step`."""
        return self.of


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One graph.

    Attributes:
        inputs: those of the request that it declares; the others follow from the models.
        outputs: what it answers with.
        steps: by name.
    """

    steps: Mapping[str, Step]
    outputs: Mapping[str, Ref]
    inputs: Mapping[str, TensorSpec] = field(default_factory=dict)

    @property
    def models(self) -> frozenset[str]:
        """Names of the models that it uses."""
        steps = self.steps.values()
        return frozenset(step.model.name for step in steps if isinstance(step, ModelStep))


def circle(needs: Mapping[str, frozenset[str]]) -> list[str]:
    """Find names that lead back to themselves, the first one again as the last; empty: none."""
    done: set[str] = set()
    for start in needs:
        if found := _circle_from(start, needs, done):
            return found
    return []


# By hand, not by recursion: a chain may be longer than Python's stack.
def _circle_from(start: str, needs: Mapping[str, frozenset[str]], done: set[str]) -> list[str]:
    path: list[str] = []
    ahead: list[Iterator[str]] = [iter((start,))]
    while ahead:
        name = next(ahead[-1], None)
        if name is None:
            ahead.pop()
            done.update(path[-1:])
            del path[-1:]
        elif name in path:
            return [*path[path.index(name) :], name]
        elif name not in done:
            path.append(name)
            ahead.append(iter(sorted(needs.get(name, ()))))
    return []


def parse_ref(given: object) -> Ref | None:
    """Read `step.item`; None where it is none."""
    step, dot, item = given.partition(".") if isinstance(given, str) else ("", "", "")
    return Ref(step, item) if step and dot and item else None
