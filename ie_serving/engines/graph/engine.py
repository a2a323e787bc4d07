"""The engine of versions with a `graph.json`; it passes every other version to another engine.

Every server imports this module, but the code that reads and runs graphs only with the first graph.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ie_serving.core.values.errors import ConfigError, LoadFailed
from ie_serving.engines.base import CompiledModel, Engine, EngineAround, EngineOptions
from ie_serving.engines.other_models import OtherModels, RecordStep, Surroundings

if TYPE_CHECKING:
    from ie_serving.engines.graph.definition import Definition
    from ie_serving.engines.steps.watching import ValueWatch

FILE = "graph.json"


class GraphEngine(EngineAround):
    """`engine`, and graphs of models. See `engines.base.Engine`.

    Args of the constructor:
        engine: engine for versions that are no graphs.
        models: the models that graphs can use.
        record: called with the seconds of each step.
        watch: counts the tensors that a step `metrics` passes on; None counts nothing.
        at_hand: gives the graph's kernels the other models; None where there are none.
    """

    def __init__(
        self,
        engine: Engine,
        models: OtherModels,
        record: RecordStep,
        watch: "ValueWatch | None" = None,
        at_hand: Surroundings | None = None,
    ) -> None:
        super().__init__(engine)
        self._models = models
        self._record = record
        self._watch = watch
        self._at_hand = at_hand

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`: a graph is whole with its file."""
        return None if FILE in files else self._engine.missing(files)

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`. The models of a graph are AVAILABLE, as far as they ever were."""
        if not (directory / FILE).is_file():
            return self._engine.compile(directory, options)
        from ie_serving.engines.graph.graph_model import load

        definition = _definition(directory)
        given = options.having(self._at_hand) if self._at_hand else options
        graph = load(definition, directory, given, self._models, self._record, self._watch)
        if self._watch is not None:
            self._watch.is_graph = True
        return graph


def models_of(directory: Path) -> Mapping[str, frozenset[int]] | None:
    """Name the models that a version uses, each with the versions that it names. Blocking.

    Returns:
        None for one that is no graph; nothing for one that cannot be read, which its load says.
    """
    if not (directory / FILE).is_file():
        return None
    try:
        return _definition(directory).versions
    except LoadFailed:
        return {}


def _definition(directory: Path) -> "Definition":
    from ie_serving.engines.graph.reading import read_text

    try:
        return read_text((directory / FILE).read_text("utf-8"), FILE)
    except ConfigError as error:
        raise LoadFailed(str(error)) from error
    except (OSError, ValueError) as error:
        raise LoadFailed(f"{FILE} cannot be read: {error}") from error
