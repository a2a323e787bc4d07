"""The parts that belong to a graph, beside the served models: kernels and built-in steps."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.signatures import named
from ie_serving.core.values.tensors import Signature, TensorSpec
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.graph.definition import CallStep, KernelStep, UseStep
from ie_serving.engines.kernels import Beside, KernelOptions, Place
from ie_serving.engines.steps.watching import Watch


@dataclass(frozen=True)
class Part:
    """A model of the graph's own; it stays as long as the graph. See `others.LoadedModel`."""

    compiled: CompiledModel
    version: int = 1
    signatures: Mapping[str, Signature] = field(default_factory=dict)


class Parts:
    """Makes and keeps the parts of one graph.

    Args of the constructor:
        directory: of the graph's version.
        options: of the graph.
        watch: counts values for the page of metrics; None counts nothing.

    Attributes:
        held: parts by the name of their step.
    """

    def __init__(self, directory: Path, options: EngineOptions, watch: Watch | None) -> None:
        self._directory = directory
        self._options = options
        self._watch = watch
        self._opened = ExitStack()
        self.held: dict[str, Part] = {}

    def signature(self, step: CallStep, offered: Mapping[str, TensorSpec | None]) -> Signature:
        """Make the part of a step, and give its signature. Blocking.

        Raises:
            LoadFailed: naming the option, file or line of code at fault.
        """
        made = self._kernel(step) if isinstance(step, KernelStep) else self._use(step, offered)
        self._opened.callback(made.close)
        self.held[step.name] = Part(made, signatures=made.signatures)
        return named(made.signatures, "", step.what)

    def close(self) -> None:
        """Close them. Blocking."""
        self._opened.close()

    def _kernel(self, step: KernelStep) -> CompiledModel:
        from ie_serving.engines.python.driver import load  # here: few graphs have code of their own

        beside = self._options.of(Beside).directory
        place = Place(file=step.place.file, name=step.place.name, beside=beside)
        own = KernelOptions(
            place=place,
            isolation=step.isolation,
            max_concurrency=step.max_concurrency,
            timeout_ms=step.limit_s * 1000,
        )
        options = EngineOptions(
            params=step.params, allow_python=self._options.allow_python, own=self._options.own
        )
        return load(self._directory, options.having(own))

    def _use(self, step: CallStep, offered: Mapping[str, TensorSpec | None]) -> CompiledModel:
        from ie_serving.engines.steps.compiled import compiled
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
        beside = self._options.of(Beside).directory
        places = [self._directory, *([Path(beside)] if beside else [])]
        found = next((each / path for each in places if (each / path).is_file()), None)
        if found is None:
            raise LoadFailed(f'file "{name}" is in neither {" nor ".join(map(str, places))}')
        return found
