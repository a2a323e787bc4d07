"""Makes a model of a graph's definition, in the thread of the load."""

from pathlib import Path

from ie_serving.core.values.signatures import named
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.graph.definition import CallStep, Definition, ModelStep
from ie_serving.engines.graph.graph_model import GraphModel
from ie_serving.engines.graph.own import Parts
from ie_serving.engines.graph.planning import Offered, plan
from ie_serving.engines.others import Others, Record
from ie_serving.engines.steps.watching import Watch


def load(
    definition: Definition,
    directory: Path,
    options: EngineOptions,
    models: Others,
    record: Record,
    watch: Watch | None,
) -> GraphModel:
    """Check a definition against its models, and load the graph's own parts. Blocking.

    Raises:
        LoadFailed: every fault, each with its step.
    """
    parts = Parts(directory, options, watch)

    def find(step: CallStep, offered: Offered) -> Signature:
        if not isinstance(step, ModelStep):
            return parts.signature(step, offered)
        signatures = models.handle(step.model).signatures
        return named(signatures, step.model.signature, f'model "{step.model.name}"')

    try:
        made = plan(definition, find)
    except BaseException:
        parts.close()
        raise
    return GraphModel(made, models, parts, record, definition.cache_s)
