"""A graph as a compiled model, which is served like any other model."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, TypeVar

from ie_serving.core.values.errors import LoadFailed, NotAvailable, NotFound, UnknownLabel
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.signatures import named
from ie_serving.core.values.tensors import SERVING_DEFAULT, Arrays, Read, Signature, TensorSpec
from ie_serving.engines.base import CompiledModel, EngineOptions, Stream, leave_of_all
from ie_serving.engines.graph.calls import CallTarget, target_of
from ie_serving.engines.graph.chain import StepChain
from ie_serving.engines.graph.definition import CallStep, Definition, KernelStep, ModelStep, UseStep
from ie_serving.engines.graph.planning import Offered, Plan, plan
from ie_serving.engines.graph.run import GraphRun
from ie_serving.engines.kernels import CodeSource, GraphFiles, KernelOptions
from ie_serving.engines.other_models import HeldModel, OtherModels, RecordStep
from ie_serving.engines.run.cache import OutputCache
from ie_serving.engines.steps.watching import ValueWatch


@dataclass(frozen=True)
class GraphPart:
    """A model of the graph's own; it stays as long as the graph. See `other_models.LoadedModel`."""

    compiled: CompiledModel
    version: int = 1
    signatures: Mapping[str, Signature] = field(default_factory=dict)


class GraphParts:
    """Makes and keeps the parts of one graph.

    Args of the constructor:
        directory: directory of the graph's version.
        options: options of the graph.
        watch: counts values for the page of metrics; None counts nothing.

    Attributes:
        held: parts by the name of their step.
    """

    def __init__(self, directory: Path, options: EngineOptions, watch: ValueWatch | None) -> None:
        self._directory = directory
        self._options = options
        self._watch = watch
        self._opened = ExitStack()
        self.held: dict[str, GraphPart] = {}

    def signature(self, step: CallStep, offered: Mapping[str, TensorSpec | None]) -> Signature:
        """Make the part of a step, and give its signature. Blocking.

        Raises:
            LoadFailed: naming the option, file or line of code at fault.
        """
        made = self._kernel(step) if isinstance(step, KernelStep) else self._use(step, offered)
        self._opened.callback(made.close)
        self.held[step.name] = GraphPart(made, signatures=made.signatures)
        return named(made.signatures, "", step.what)

    def close(self) -> None:
        """Close them. Blocking."""
        self._opened.close()

    def _kernel(self, step: KernelStep) -> CompiledModel:
        from ie_serving.engines.python.driver import load  # here: few graphs have code of their own

        beside = self._options.of(GraphFiles).directory
        source = CodeSource(file=step.source.file, name=step.source.name, beside=beside)
        own = KernelOptions(
            source=source,
            isolation=step.isolation,
            max_concurrency=step.max_concurrency,
            timeout_ms=step.limit_s * 1000,
        )
        options = EngineOptions(
            params=step.params, allow_python=self._options.allow_python, own=self._options.own
        )
        return load(self._directory, options.having(own))

    def _use(self, step: CallStep, offered: Mapping[str, TensorSpec | None]) -> CompiledModel:
        from ie_serving.engines.steps.compiled_step import compiled
        from ie_serving.engines.steps.registry import TABLE

        assert isinstance(step, UseStep)
        row = TABLE[step.use]
        options: Mapping[str, Any] = row.read(step.options, self._find)
        signature = row.signature(offered, options)
        return compiled(row, step.use, step.name, options, signature, self._watch)

    def _find(self, name: str) -> Path:
        """Find a file that a step's option names."""
        path = PurePath(name)
        # The author of a graph may lack the right to read every file of the server.
        if path.is_absolute() or ".." in path.parts:
            raise LoadFailed(f'file "{name}": expected one beside the graph, without ".."')
        beside = self._options.of(GraphFiles).directory
        folders = [self._directory, *([Path(beside)] if beside else [])]
        found = next((each / path for each in folders if (each / path).is_file()), None)
        if found is None:
            raise LoadFailed(
                f'file "{name}" is missing; expected it in {" or ".join(map(str, folders))}'
            )
        return found


T = TypeVar("T")
Targets = Mapping[str, CallTarget]


class GraphModel(CompiledModel):
    """Runs the steps of a graph. See `engines.base.CompiledModel`.

    Args of the constructor:
        plan: plan of the graph, checked against the served models.
        models: gives their versions.
        parts: the graph's own kernels and built-in steps; closed with it.
        record: called with the time of each step.
        cache_s: seconds for which outputs are reused for equal requests; 0 computes each.

    Attributes:
        chain: runs the steps where each has one input, the one before it; None elsewhere.
    """

    def __init__(
        self,
        plan: Plan,
        models: OtherModels,
        parts: GraphParts,
        record: RecordStep,
        cache_s: float = 0.0,
    ) -> None:
        self._plan = plan
        self.signatures = {plan.signature.name: plan.signature}
        self._models = models
        self._parts = parts
        self._record = record
        calls = [step for step in plan.steps.values() if isinstance(step, CallStep)]
        used: dict[ModelSpec, list[str]] = {}
        for step in calls:
            if isinstance(step, ModelStep):
                used.setdefault(step.model, []).append(step.name)
        self._used = [(spec, tuple(steps)) for spec, steps in used.items()]
        self._caches = {step.name: OutputCache(step.cache_s) for step in calls if step.cache_s}
        self._cache = OutputCache(cache_s) if cache_s else None
        self._own: Targets = {
            name: CallTarget(part, named(part.signatures, "", name))
            for name, part in parts.held.items()
        }
        self.chain = self._chained() if self._cache is None else None

    def _chained(self) -> StepChain | None:
        """Give the short way, where the steps go it."""
        if self._plan.only is None or not all(step.is_plain for step in self._plan.only):
            return None
        indices = {name: at for at, (_, steps) in enumerate(self._used) for name in steps}
        return StepChain(self._plan, indices, self._parts.held, self._record)

    async def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> T:
        """See `engines.base`.

        The version of every model is chosen before the first await, and held to the end: a reload
        during the request does not affect it.
        """
        held: list[HeldModel] = []
        # An `ExitStack` would cost as much as all the rest.
        try:
            for spec, steps in self._used:
                try:
                    found = self._models.handle(spec)
                except (NotFound, UnknownLabel) as error:
                    raise NotAvailable(f'step "{steps[0]}": {error}') from error
                found.holders += 1
                held.append(found)
            if self.chain is not None:
                return await self.chain.infer(held, inputs, read)
            return read(await self._outputs(held, inputs))
        finally:
            for each in held:
                each.holders -= 1
                if not each.holders and each.unheld:
                    each.unheld.set()

    async def _outputs(self, held: Sequence[HeldModel], inputs: Arrays) -> Arrays:
        targets = dict(self._own)
        for (spec, steps), each in zip(self._used, held, strict=True):
            target = target_of(each, spec.signature or SERVING_DEFAULT, steps[0])
            targets.update(dict.fromkeys(steps, target))
        run = GraphRun(self._plan, targets, self._caches, inputs, self._record)
        if self._cache is None:
            return await run.outputs()
        whose = " ".join(f"{t.held.version} {id(t.held.compiled)}" for t in targets.values())
        return await self._cache.get(whose, inputs, run.outputs)

    @property
    def stream(self) -> Stream | None:
        """See `engines.base.Stream`: that of the only step, if it goes by the graph's names."""
        only = self._plan.only or ()
        if self.chain is None or len(only) != 1 or only[0].name not in self._own:
            return None
        refs = (*self._plan.outputs.items(), *only[0].inputs.items())
        names = {**only[0].outputs, **{name: ref.item for name, ref in refs}}
        is_same = all(name == other for name, other in names.items())
        return self._own[only[0].name].held.compiled.stream if is_same else None

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`: the models have limits of their own."""
        return 1

    @property
    def leave(self) -> Callable[[], object] | None:
        """See `engines.base`."""
        return leave_of_all(part.compiled for part in self._parts.held.values())

    def close(self) -> None:
        """See `engines.base`: models are held by requests alone."""
        for cache in (*self._caches.values(), *([self._cache] if self._cache else [])):
            cache.close()
        self._parts.close()


def load(
    definition: Definition,
    directory: Path,
    options: EngineOptions,
    models: OtherModels,
    record: RecordStep,
    watch: ValueWatch | None,
) -> GraphModel:
    """Check a definition against its models, and load the graph's own parts. Blocking.

    Raises:
        LoadFailed: every fault, each with its step.
    """
    parts = GraphParts(directory, options, watch)

    def find(step: CallStep, offered: Offered) -> Signature:
        if not isinstance(step, ModelStep):
            return parts.signature(step, offered)
        signatures = models.handle(step.model).signatures
        return named(signatures, step.model.signature, f'model "{step.model.name}"')

    with ExitStack() as undone:
        undone.callback(parts.close)
        made = plan(definition, find)
        undone.pop_all()
    return GraphModel(made, models, parts, record, definition.cache_s)
