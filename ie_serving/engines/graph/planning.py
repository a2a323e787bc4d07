"""A definition is held against the models that it uses; what fits becomes a `Plan`.

Names, dtypes and shapes are compared here, once for a load, as far as the models say them. Every
fault names its step.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ie_serving.core.errors import LoadFailed, ServingError
from ie_serving.core.nearest import nearest
from ie_serving.core.requests import ModelSpec
from ie_serving.core.tensors import SERVING_DEFAULT, DataType, Signature, TensorSpec
from ie_serving.engines.graph.definition import (
    REQUEST,
    AnyStep,
    Definition,
    MergeStep,
    ModelStep,
    Ref,
    Step,
    SwitchStep,
)
from ie_serving.engines.graph.specs import Specs, common, each_of, stacked, unfit, united

S = TypeVar("S", bound=Step)
Find = Callable[[ModelSpec], Signature]
"""Gives the signature that a model has now. Raises: ServingError."""


@dataclass(frozen=True)
class Plan:
    """A graph whose steps fit its models.

    Attributes:
        signature: what clients see.
        steps: by name; those of models say what fills each input, and which outputs they give.
        gives: specs of the items of each step.
        outputs: what each output of the graph is.
        waits: steps that each step takes tensors of.
        wanted: steps that outputs are of.
        shared: steps that are asked for more than once.
    """

    signature: Signature
    steps: Mapping[str, Step]
    gives: Mapping[str, Specs]
    outputs: Mapping[str, Ref]
    waits: Mapping[str, tuple[str, ...]]
    wanted: tuple[str, ...]
    shared: frozenset[str]


def plan(definition: Definition, find: Find) -> Plan:
    """Hold `definition` against its models.

    Raises:
        LoadFailed: every fault, such as `step "score": in.x: step "scale" has no item "z"`.
    """
    return _Planner(definition, find).plan()


class _Planner:
    """Collects what each step gives, what the request has to bring, and what is wrong."""

    def __init__(self, definition: Definition, find: Find) -> None:
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
        if self._faults:
            raise LoadFailed("; ".join(self._faults))
        return Plan(
            self._own_signature(specs),
            self._steps,
            self._gives,
            outputs,
            waits={name: _steps_of(step.reads) for name, step in self._steps.items()},
            wanted=_steps_of(outputs.values()),
            shared=_shared(self._steps, outputs),
        )

    def _check_declared(self) -> None:
        for name in sorted(self._looked_at.keys() - self._request.keys()):
            advice = f'declare it: "inputs": {{"{name}": {{"dtype": "float", "shape": [-1]}}}}'
            self._faults.append(f"{self._looked_at[name]}: no model takes request.{name}; {advice}")

    def _own_signature(self, outputs: Mapping[str, TensorSpec | None]) -> Signature:
        return Signature(
            SERVING_DEFAULT,
            {name: self._input(name, spec) for name, spec in self._request.items()},
            {n: replace(_renamed(spec, n), image=None) for n, spec in outputs.items() if spec},
            runs_on=f"a graph of {len(self._steps)} steps: {', '.join(self._steps)}",
        )

    def _input(self, name: str, spec: TensorSpec) -> TensorSpec:
        """Give an input of the graph; images are for its models to decode, each as it does."""
        # Given back as it came it would be the bytes of a file, where the signature says numbers.
        is_given_back = Ref(REQUEST, name) in self._definition.outputs.values()
        return replace(_renamed(spec, name), image=None if is_given_back else spec.image)

    def _take(self, step: Step) -> None:
        kinds: Mapping[type[Step], Callable[[Step], tuple[Step, Specs]]] = {
            ModelStep: _of(ModelStep, self._model),
            SwitchStep: _of(SwitchStep, self._switch),
            MergeStep: _of(MergeStep, self._merge),
            AnyStep: _of(AnyStep, self._any),
        }
        if step.tested:
            self._spec(step.tested, f'step "{step.name}": when', None)
        self._steps[step.name], gives = kinds[type(step)](step)
        if step.fallback and gives:
            self._check_fallback(step, gives)
        self._gives[step.name] = gives

    def _fault(self, step: Step, text: str) -> None:
        self._faults.append(f'step "{step.name}": {text}')

    # -- models --------------------------------------------------------------------------------

    def _model(self, step: ModelStep) -> tuple[Step, Specs]:
        signature = self._signature(step)
        if signature is None:
            return step, {}
        inputs = self._filled(step, signature)
        for name, ref in inputs.items():
            wanted = signature.inputs[name]
            wanted = each_of(wanted) if name in step.split else wanted
            self._spec(ref, f'step "{step.name}": in.{name}', wanted)
        outputs = self._named(step, signature)
        gives = {item: signature.outputs[alias] for item, alias in outputs.items()}
        if step.split:
            gives = {item: stacked(spec) for item, spec in gives.items()}
        return replace(step, inputs=inputs, outputs=outputs, sources=()), gives

    def _signature(self, step: ModelStep) -> Signature | None:
        try:
            found = self._find(step.model)
        except ServingError as error:
            self._fault(step, str(error))
            return None
        if found.examples or found.left_out or found.definition:
            why = found.left_out or "it takes Examples"
            self._fault(step, f'signature "{found.name}" cannot be a step: {why}')
            return None
        return found

    def _filled(self, step: ModelStep, signature: Signature) -> dict[str, Ref]:
        """Say what fills each input of the model."""
        filled = {name: ref for name, ref in step.inputs.items() if name in signature.inputs}
        known = ", ".join(map(str, signature.inputs.values()))
        for name in sorted(step.inputs.keys() - filled.keys()):
            near = nearest(name, signature.inputs)
            self._fault(step, f'model "{step.model.name}" has no input "{name}": {known}{near}')
        for name in sorted(signature.inputs.keys() - filled.keys()):
            source = next((s for s in step.sources if s == REQUEST or name in self._gives[s]), None)
            # An input with a default is left to it: as one of the graph every request would have to
            # bring it.
            if source is not None and not (source == REQUEST and name in signature.defaults):
                filled[name] = Ref(source, name)
            elif name not in signature.defaults:
                self._fault(step, self._lacks(step, signature.inputs[name]))
        return {name: filled[name] for name in signature.inputs if name in filled}

    def _lacks(self, step: ModelStep, spec: TensorSpec) -> str:
        given = [f"{source}.{item}" for source in step.sources for item in self._items(source)]
        there = f"; there is {', '.join(given)}" if given else ""
        return f'nothing fills input {spec} of model "{step.model.name}"; name it in "in"{there}'

    def _items(self, source: str) -> Specs:
        return self._request if source == REQUEST else self._gives[source]

    def _named(self, step: ModelStep, signature: Signature) -> dict[str, str]:
        """Give the outputs that the step takes, by their items."""
        if not step.outputs:
            return {name: name for name in signature.outputs}
        for alias in sorted({*step.outputs.values()} - signature.outputs.keys()):
            known = ", ".join(signature.outputs)
            near = nearest(alias, signature.outputs)
            lacks = f'model "{step.model.name}" has no output "{alias}"; it has {known}{near}'
            self._fault(step, f"outputs: {lacks}")
        return {i: alias for i, alias in step.outputs.items() if alias in signature.outputs}

    # -- steps of steps ------------------------------------------------------------------------

    def _switch(self, step: SwitchStep) -> tuple[Step, Specs]:
        for ref in step.reads:
            self._spec(ref, f'step "{step.name}": switch', None)
        return step, self._alike(step)

    def _any(self, step: AnyStep) -> tuple[Step, Specs]:
        return step, self._alike(step)

    def _merge(self, step: MergeStep) -> tuple[Step, Specs]:
        if step.combine:
            return step, self._combined(step)
        if step.on_conflict == "prefix":
            pairs = [(f"{s}.{item}", spec) for s in step.of for item, spec in self._items_of(s)]
        else:
            pairs = [pair for s in step.of for pair in self._items_of(s)]
        twice = [name for name, number in Counter(name for name, _ in pairs).items() if number > 1]
        if twice and not step.on_conflict:
            each = f'"{twice[0]}" is an item of several steps'
            self._fault(step, f'merge: {each}; say "on_conflict": "last" or "prefix"')
        return step, dict(pairs)

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
            return {}  # whose fault is said already
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
        """Find what `ref` is, and compare it with what is wanted of it."""
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


def _of(
    kind: type[S], take: Callable[[S], tuple[Step, Specs]]
) -> Callable[[Step], tuple[Step, Specs]]:
    def taken(step: Step) -> tuple[Step, Specs]:
        assert isinstance(step, kind)
        return take(step)

    return taken


# By hand, not by recursion: a chain may be longer than Python's stack.
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


def _shared(steps: Mapping[str, Step], outputs: Mapping[str, Ref]) -> frozenset[str]:
    asked = Counter(name for step in steps.values() for name in step.needs)
    # A step may ask for its fallback twice: for items that it takes, and when it has failed.
    asked.update(step.fallback for step in steps.values() if step.fallback)
    asked.update({ref.step for ref in outputs.values()} - {REQUEST})
    return frozenset(name for name, number in asked.items() if number > 1)


def _renamed(spec: TensorSpec, name: str) -> TensorSpec:
    return replace(spec, name=name, tensor=f"{name}:0")
