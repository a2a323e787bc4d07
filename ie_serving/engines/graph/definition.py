"""The definition of a graph: steps that take tensors of the request and of each other.

`reading.py` reads it from JSON, `planning.py` checks it against the models, `run.py` runs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from ie_serving.core.values.integers import MOST_NESTED
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import SERVING_DEFAULT, Specs
from ie_serving.engines.graph.condition import Condition
from ie_serving.engines.kernels import THREAD, CodeSource

REQUEST = "request"
"""The client's request, in place of a step's name."""

ITEM = "item"
"""An entry of the item that `for_each` names, in place of a step's name."""


@dataclass(frozen=True, slots=True)
class Ref:
    """One tensor: an item of a step, or of the request. Written `step.item`."""

    step: str
    item: str

    def __str__(self) -> str:
        return f"{self.step}.{self.item}"


@dataclass(frozen=True, kw_only=True)
class Step:
    """The common part of all kinds of steps.

    Attributes:
        name: name by which other steps refer to it.
        when: the step is skipped unless this holds.
        fallback: step whose items replace this one's if it fails; empty for none.
    """

    name: str
    when: Condition | None = None
    tested: Ref | None = None
    """The item that `when` tests."""

    fallback: str = ""

    @property
    def reads(self) -> tuple[Ref, ...]:
        """Tensors that it takes."""
        return ()

    @property
    def asks(self) -> tuple[str, ...]:
        """Steps whose items it passes on unchanged, all of them or one of them."""
        return ()

    @property
    def needs(self) -> frozenset[str]:
        """Every step that it may wait for."""
        named = {*self.asks, self.fallback, *(ref.step for ref in self.reads)}
        if self.tested:
            named.add(self.tested.step)
        return frozenset(named - {"", REQUEST})


@dataclass(frozen=True, kw_only=True)
class CallStep(Step):
    """A step that computes: a model, a kernel, or a built-in step.

    Attributes:
        inputs: the source of each input.
        sources: steps whose items of the same name fill the other inputs, the first that has one.
        outputs: output by the item's name; empty takes all under their own names.
        split: inputs whose entries are inferred separately, each with the number of leading
            dimensions that count the entries.
        entries: required number of entries along each of these dimensions; -1 takes any number.
        gathers: step whose entries it takes together; empty where it names none.
        timeout_s: longest time of an inference; 0 sets no limit.
        retries: further tries of an inference that fails.
        cache_s: seconds for which outputs answer equal inputs; 0 computes them each time.
    """

    inputs: Mapping[str, Ref] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    split: Mapping[str, int] = field(default_factory=dict)
    entries: tuple[int, ...] = ()
    gathers: str = ""
    timeout_s: float = 0.0
    retries: int = 0
    cache_s: float = 0.0

    @property
    def what(self) -> str:
        """A description of the step for errors."""
        raise NotImplementedError

    @property
    def signature(self) -> str:
        """Name of the signature that it runs."""
        return SERVING_DEFAULT

    @cached_property
    def is_plain(self) -> bool:
        """It is run once for a request, whatever becomes of that."""
        return not (self.split or self.timeout_s or self.retries or self.cache_s)

    @cached_property
    def taken(self) -> frozenset[str]:
        """The outputs that are taken."""
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
class ModelStep(CallStep):
    """A served model.

    Attributes:
        model: name and signature of the model.
    """

    model: ModelSpec

    @property
    def what(self) -> str:
        """See `CallStep`."""
        return f'model "{self.model.name}"'

    @property
    def signature(self) -> str:
        """See `CallStep`."""
        return self.model.signature or SERVING_DEFAULT


@dataclass(frozen=True, kw_only=True)
class KernelStep(CallStep):
    """A kernel that belongs to the graph.

    Attributes:
        source: file and name of its code.
        params: its parameters, with the types of JSON.
        isolation: isolation, as in `KernelOptions`.
        max_concurrency: most calls at once, as in `KernelOptions`.
        limit_s: longest time of a call, in place of `timeout_s`; then the kernel's process ends.
    """

    source: CodeSource
    params: Mapping[str, object] = field(default_factory=dict)
    isolation: str = THREAD
    max_concurrency: int = 1
    limit_s: float = 0.0

    @property
    def what(self) -> str:
        """See `CallStep`."""
        return f'kernel "{self.source}"'


@dataclass(frozen=True, kw_only=True)
class UseStep(CallStep):
    """A built-in step.

    Attributes:
        use: its name in `engines.steps.registry.TABLE`.
        options: `with`, as JSON has it.
    """

    use: str
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """See `CallStep`."""
        return f'use "{self.use}"'


@dataclass(frozen=True, kw_only=True)
class SwitchStep(Step):
    """The items of one of several steps; only that one runs.

    Attributes:
        on: the item whose value selects a case; None where `weights` choose.
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
        inputs: declared inputs of the request; the others follow from the models.
        outputs: the items that it answers with.
        steps: steps by name.
        cache_s: seconds for which outputs are given to equal requests; 0 computes it each time.
    """

    steps: Mapping[str, Step]
    outputs: Mapping[str, Ref]
    inputs: Specs = field(default_factory=dict)
    cache_s: float = 0.0

    @property
    def models(self) -> frozenset[str]:
        """Names of the models that it uses."""
        return frozenset(self.versions)

    def step_with(self, model: str) -> str:
        """Name the first step that runs a model that the graph uses."""
        steps = self.steps.items()
        return next(n for n, s in steps if isinstance(s, ModelStep) and s.model.name == model)

    @property
    def versions(self) -> Mapping[str, frozenset[int]]:
        """The versions of each model that it uses by their numbers, where steps do."""
        found: dict[str, frozenset[int]] = {}
        for step in self.steps.values():
            if isinstance(step, ModelStep):
                own = {step.model.version} if step.model.version else ()
                found[step.model.name] = found.get(step.model.name, frozenset()).union(own)
        return found


def circle(needs: Mapping[str, frozenset[str]]) -> list[str]:
    """Find names that lead back to themselves, the first one again as the last; empty: none."""
    try:
        TopologicalSorter({name: sorted(needs[name]) for name in needs}).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def too_deep(uses: Mapping[str, frozenset[str]]) -> list[str]:
    """Find graphs nested deeper than `MOST_NESTED`; empty: none.

    Args:
        uses: the models used by each graph, by its name, without cycles.
    """
    level = {name: [name] for name in uses}
    for _ in range(MOST_NESTED):
        # One way for each that is reached, or they would become very many.
        level = {
            e: [*way, e] for name, way in level.items() for e in uses.get(name, ()) if e in uses
        }
    return next(iter(level.values()), [])


def parse_ref(given: object) -> Ref | None:
    """Read `step.item`; None where it is none."""
    step, dot, item = given.partition(".") if isinstance(given, str) else ("", "", "")
    return Ref(step, item) if step and dot and item else None
