"""Checks a definition against the models that it uses, and makes a `Plan` of it.

Names, dtypes and shapes are compared here, once for a load, as far as the models declare them.
Every fault names its step.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.hints import nearest
from ie_serving.core.values.tensors import (
    ABSENT,
    SERVING_DEFAULT,
    DataType,
    Signature,
    Specs,
    TensorSpec,
)
from ie_serving.engines.graph.definition import (
    REQUEST,
    CallStep,
    Definition,
    MergeStep,
    Ref,
    Step,
    SwitchStep,
)
from ie_serving.engines.graph.specs import common, each_of, entry_of, stacked, unfit, united
from ie_serving.telemetry.log.logs import About, carried

Offered = Mapping[str, TensorSpec | None]
"""Tensors that may fill inputs of the same name; None where only their names are known."""

FindSignature = Callable[[CallStep, Offered], Signature]
"""Gives the signature that a step runs now. Raises: ServingError."""

MOST_NESTED = 32
"""Steps nested in one task; a deeper chain uses further tasks. Each step takes four of Python's
frames, and a task has 1,000."""


@dataclass(frozen=True)
class Plan:
    """A graph whose steps fit its models.

    Attributes:
        signature: public signature.
        steps: steps by name; those of models have the source of each input, and their outputs.
        gives: specs of the items of each step.
        outputs: the source of each output of the graph.
        waits: steps whose tensors a step takes, by step.
        wanted: steps that give the graph's outputs.
        lines: steps that run in sequence without nested calls, by the name of the last one.
        apart: steps that run in separate tasks: those that several steps use, and some of every
            long chain.
        only: all steps, where they form a chain and none is ever skipped: then no step waits for
            another one. Else None.
        about: the model and version of the graph, for log events.
    """

    signature: Signature
    steps: Mapping[str, Step]
    gives: Mapping[str, Specs]
    outputs: Mapping[str, Ref]
    waits: Mapping[str, tuple[str, ...]]
    wanted: tuple[str, ...]
    lines: Mapping[str, tuple[CallStep, ...]]
    apart: frozenset[str]
    only: Sequence[CallStep] | None
    about: About = field(default_factory=carried)


def plan(definition: Definition, find: FindSignature) -> Plan:
    """Hold `definition` against its models.

    Raises:
        LoadFailed: every fault, such as `step "score": in.x: step "scale" has no item "z"`.
    """
    return _Planner(definition, find).plan()


class _Planner:
    """Collects each step's items, the request's inputs, and the faults."""

    def __init__(self, definition: Definition, find: FindSignature) -> None:
        self._definition = definition
        self._find = find
        self._faults: list[str] = []
        self._request: dict[str, TensorSpec] = dict(definition.inputs)
        self._looked_at: dict[str, str] = {}  # of the request, with the place, whatever it is
        self._steps: dict[str, Step] = {}
        self._gives: dict[str, Specs] = {}

    def plan(self) -> Plan:
        for name in _in_order(self._definition.steps):
            self._take(self._definition.steps[name])
        outputs = self._definition.outputs
        specs = {name: self._spec(ref, f"output {name}", None) for name, ref in outputs.items()}
        self._check_declared()
        self._meet_conditions()
        if self._faults:
            raise LoadFailed("; ".join(self._faults))
        self._leave_out()
        apart = _apart(self._steps, outputs)
        return Plan(
            self._own_signature(specs),
            self._steps,
            self._gives,
            outputs,
            waits={name: _steps_of(step.reads) for name, step in self._steps.items()},
            wanted=_steps_of(outputs.values()),
            lines={
                name: _line(name, self._steps, apart)
                for name in self._steps
                if _is_linear(self._steps[name])
            },
            apart=apart,
            only=_linear_calls([*self._steps.values()]),
        )

    def _leave_out(self) -> None:
        """Leave out unused outputs of steps: each costs a copy in every request."""
        steps = self._steps.values()
        whole = {name for step in steps for name in (*step.asks, step.fallback)}
        read = {*self._definition.outputs.values()}.union(*(step.reads for step in steps))
        read |= {step.tested for step in steps if step.tested}
        for name, step in self._steps.items():
            if isinstance(step, CallStep) and name not in whole:
                items = {ref.item for ref in read if ref.step == name}
                outputs = {item: alias for item, alias in step.outputs.items() if item in items}
                self._steps[name] = replace(step, outputs=outputs)
                self._gives[name] = {item: self._gives[name][item] for item in outputs}

    def _check_declared(self) -> None:
        for name in sorted(self._looked_at.keys() - self._request.keys()):
            advice = f'declare it: "inputs": {{"{name}": {{"dtype": "float", "shape": [-1]}}}}'
            self._faults.append(f"{self._looked_at[name]}: no model takes request.{name}; {advice}")

    def _meet_conditions(self) -> None:
        """Refuse conditions that never hold, and round the values of the others.

        Called after all steps are planned: before, the dtypes of the request are not known.
        """
        for name, step in self._steps.items():
            spec = step.tested and self._items(step.tested.step).get(step.tested.item)
            if not step.when or not spec:
                continue
            if fault := step.when.fault(spec.dtype):
                self._fault(step, f"when: {step.when.text}: {fault}")
            self._steps[name] = replace(step, when=step.when.meeting(spec.dtype))

    def _own_signature(self, outputs: Mapping[str, TensorSpec | None]) -> Signature:
        return Signature(
            SERVING_DEFAULT,
            {name: self._input(name, spec) for name, spec in self._request.items()},
            {n: replace(_renamed(spec, n), image=None) for n, spec in outputs.items() if spec},
            defaults={name: ABSENT for name, spec in self._request.items() if spec.optional},
            runs_on=f"a graph of {len(self._steps)} steps: {', '.join(self._steps)}",
        )

    def _input(self, name: str, spec: TensorSpec) -> TensorSpec:
        """Give an input of the graph; images are for its models to decode, each as it does."""
        # Given back as it came it would be the bytes of a file, where the signature says numbers.
        is_given_back = Ref(REQUEST, name) in self._definition.outputs.values()
        return replace(_renamed(spec, name), image=None if is_given_back else spec.image)

    def _take(self, step: Step) -> None:
        if step.tested:
            self._spec(step.tested, f'step "{step.name}": when', None)
        self._steps[step.name], gives = self._with_sources(step)
        if step.fallback and gives:
            self._check_fallback(step, gives)
        self._gives[step.name] = gives

    def _with_sources(self, step: Step) -> tuple[Step, Specs]:
        """Give the step with the source of each of its inputs, and its items."""
        if isinstance(step, CallStep):
            return self._call(step)
        if isinstance(step, SwitchStep):
            return step, self._switch(step)
        if isinstance(step, MergeStep):
            return step, self._merge(step)
        return step, self._alike(step)

    def _fault(self, step: Step, text: str) -> None:
        self._faults.append(f'step "{step.name}": {text}')

    # -- computing steps -----------------------------------------------------------------------

    def _call(self, step: CallStep) -> tuple[Step, Specs]:
        signature = self._signature(step)
        if signature is None:
            return step, {}
        inputs = self._filled(step, signature)
        for name, ref in inputs.items():
            wanted = each_of(signature.inputs[name], step.split.get(name, 0))
            self._spec(ref, f'step "{step.name}": in.{name}', wanted)
        outputs = self._outputs_by_item(step, signature)
        levels = max(step.split.values(), default=0)
        gives = {i: stacked(signature.outputs[alias], levels) for i, alias in outputs.items()}
        return replace(step, inputs=inputs, outputs=outputs, sources=()), gives

    def _signature(self, step: CallStep) -> Signature | None:
        try:
            found = self._find(step, self._offered(step))
        except ServingError as error:
            self._fault(step, str(error))
            return None
        if found.examples or found.left_out or found.definition:
            why = found.left_out or "it takes Examples"
            self._fault(step, f'signature "{found.name}" cannot be a step: {why}')
            return None
        return found

    def _offered(self, step: CallStep) -> Offered:
        """Give the known specs of tensors that may fill the step's inputs."""
        found: dict[str, TensorSpec | None] = {}
        for source in reversed(step.sources):
            found.update(self._items(source))
        for name, ref in step.inputs.items():
            spec = self._items(ref.step).get(ref.item)
            found[name] = spec and entry_of(spec, step.split.get(name, 0))
        return found

    def _filled(self, step: CallStep, signature: Signature) -> dict[str, Ref]:
        """Give the source of each input."""
        filled = {name: ref for name, ref in step.inputs.items() if name in signature.inputs}
        known = ", ".join(map(str, signature.inputs.values()))
        for name in sorted(step.inputs.keys() - filled.keys()):
            near = nearest(name, signature.inputs)
            self._fault(step, f'{step.what} has no input "{name}": {known}{near}')
        for name in sorted(signature.inputs.keys() - filled.keys()):
            source = next((s for s in step.sources if s == REQUEST or name in self._gives[s]), None)
            # An input with a default is left to it: as one of the graph every request would have to
            # bring it.
            if source is not None and not (source == REQUEST and name in signature.defaults):
                filled[name] = Ref(source, name)
            elif name not in signature.defaults:
                self._fault(step, self._lacks(step, signature.inputs[name]))
        return {name: filled[name] for name in signature.inputs if name in filled}

    def _lacks(self, step: CallStep, spec: TensorSpec) -> str:
        given = [f"{source}.{item}" for source in step.sources for item in self._items(source)]
        there = f"; there is {', '.join(given)}" if given else ""
        return f'nothing fills input {spec} of {step.what}; name it in "in"{there}'

    def _items(self, source: str) -> Specs:
        return self._request if source == REQUEST else self._gives[source]

    def _outputs_by_item(self, step: CallStep, signature: Signature) -> dict[str, str]:
        """Give the outputs that the step takes, by their items."""
        if not step.outputs:
            return {name: name for name in signature.outputs}
        for alias in sorted({*step.outputs.values()} - signature.outputs.keys()):
            known = ", ".join(signature.outputs)
            near = nearest(alias, signature.outputs)
            lacks = f'{step.what} has no output "{alias}"; it has {known}{near}'
            self._fault(step, f"outputs: {lacks}")
        return {i: alias for i, alias in step.outputs.items() if alias in signature.outputs}

    # -- steps of steps ------------------------------------------------------------------------

    def _switch(self, step: SwitchStep) -> Specs:
        for ref in step.reads:
            self._spec(ref, f'step "{step.name}": switch', None)
        return self._alike(step)

    def _merge(self, step: MergeStep) -> Specs:
        if step.combine:
            return self._combined(step)
        if step.on_conflict == "prefix":
            pairs = [(f"{s}.{item}", spec) for s in step.of for item, spec in self._items_of(s)]
        else:
            pairs = [pair for s in step.of for pair in self._items_of(s)]
        twice = [name for name, number in Counter(name for name, _ in pairs).items() if number > 1]
        if twice and not step.on_conflict:
            each = f'"{twice[0]}" is an item of several steps'
            self._fault(step, f'merge: {each}; say "on_conflict": "last" or "prefix"')
        return dict(pairs)

    def _combined(self, step: MergeStep) -> Specs:
        specs = self._alike(step)
        texts = sorted(name for name, spec in specs.items() if spec.dtype is DataType.STRING)
        if step.combine == "mean" and texts:
            self._fault(step, f'combine: item "{texts[0]}" is text, which has no mean; take "max"')
        return specs

    def _items_of(self, step: str) -> list[tuple[str, TensorSpec]]:
        return list(self._gives[step].items())

    def _alike(self, step: Step) -> Specs:
        """Give the items that all of the steps have which this one chooses from."""
        known = [self._gives[name] for name in step.asks]
        if not all(known):
            return {}  # its fault is already reported
        found = common(known)
        if isinstance(found, str):
            self._fault(step, f"{', '.join(step.asks)}: {found}")
            return {}
        return found

    def _check_fallback(self, step: Step, gives: Specs) -> None:
        other = self._gives[step.fallback]
        lacking = sorted(gives.keys() - other.keys())
        if other and lacking:
            self._fault(step, f'fallback "{step.fallback}" has no item "{lacking[0]}"')
        elif other and isinstance(wrong := common([gives, other]), str):
            self._fault(step, f'fallback "{step.fallback}": {wrong}')

    # -- tensors -------------------------------------------------------------------------------

    def _spec(self, ref: Ref, where: str, wanted: TensorSpec | None) -> TensorSpec | None:
        """Find the spec of `ref`, and compare it with the wanted spec."""
        if ref.step == REQUEST:
            return self._of_request(ref.item, where, wanted)
        specs = self._gives[ref.step]
        found = specs.get(ref.item)
        if found is None and specs:
            there = f"it gives {', '.join(specs)}{nearest(ref.item, specs)}"
            self._faults.append(f'{where}: step "{ref.step}" has no item "{ref.item}"; {there}')
        if found and wanted and (wrong := unfit(found, wanted)):
            self._faults.append(f"{where}: {ref} is {found}, {wrong}")
        return found

    def _of_request(self, name: str, where: str, wanted: TensorSpec | None) -> TensorSpec | None:
        known = self._request.get(name)
        if wanted is None:
            self._looked_at[name] = where
            return known
        if known is None:
            self._request[name] = wanted
            return wanted
        found = united(known, wanted, is_declared=name in self._definition.inputs)
        if isinstance(found, str):
            self._faults.append(f"{where}: request.{name} is {known} elsewhere, {found}")
            return None
        self._request[name] = found
        return found


# The steps are sorted by a loop, not by recursion: a chain may be longer than Python's stack.
def _in_order(steps: Mapping[str, Step]) -> list[str]:
    """Order steps so that each stands behind those that it needs; there is no circle."""
    order: dict[str, None] = {}
    ahead = [*steps][::-1]
    while ahead:
        name = ahead[-1]
        lacking = sorted(steps[name].needs - order.keys())
        ahead += lacking
        if not lacking:
            ahead.pop()
            order[name] = None
    return list(order)


def _steps_of(refs: Iterable[Ref]) -> tuple[str, ...]:
    return tuple(sorted({ref.step for ref in refs} - {REQUEST}))


def _apart(steps: Mapping[str, Step], outputs: Mapping[str, Ref]) -> frozenset[str]:
    """Name the steps that run in tasks of their own. `steps` are in their order."""
    asked = Counter(name for step in steps.values() for name in step.needs)
    # A step may need its fallback twice: for items that it takes, and when it has failed.
    asked.update(step.fallback for step in steps.values() if step.fallback)
    asked.update({ref.step for ref in outputs.values()} - {REQUEST})
    found = {name for name, number in asked.items() if number > 1}
    nested: dict[str, int] = {}  # steps that may run within this one, one within the other
    for name, step in steps.items():
        nested[name] = 1 + max((nested[each] for each in step.needs), default=0)
        if name in found or nested[name] > MOST_NESTED:
            found.add(name)
            nested[name] = 0
    return frozenset(found)


def _linear_calls(steps: Sequence[Step]) -> Sequence[CallStep] | None:
    """Give the steps, in their order, if no two could run at a time; see `Plan`."""
    calls = [step for step in steps if isinstance(step, CallStep) and _is_linear(step)]
    if len(calls) < len(steps):
        return None
    pairs = pairwise(calls)
    return calls if calls and all(a.name in _steps_of(b.reads) for a, b in pairs) else None


def _is_linear(step: Step) -> bool:
    """Tell whether a step always runs when it is needed, and itself gives its items."""
    return isinstance(step, CallStep) and step.when is None and not step.fallback


def _line(name: str, steps: Mapping[str, Step], apart: Collection[str]) -> tuple[CallStep, ...]:
    """Give the steps up to `name` that can run in sequence without nested calls."""
    found: list[CallStep] = []
    while True:
        step = steps[name]
        assert isinstance(step, CallStep)
        found.append(step)
        sources = _steps_of(step.reads)
        # A step that other steps need as well runs in a separate task.
        if len(sources) != 1 or sources[0] in apart or not _is_linear(steps[sources[0]]):
            return tuple(found[::-1])
        (name,) = sources


def _renamed(spec: TensorSpec, name: str) -> TensorSpec:
    return replace(spec, name=name, tensor=name)
