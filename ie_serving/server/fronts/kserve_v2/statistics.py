"""Finds the versions that a request for statistics names, and their statistics."""

from collections.abc import Mapping
from typing import Any

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import NotSupported
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.requests import ModelSpec
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.kserve_v2.asked import model_spec
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.statistics import statistics


async def told(
    metrics: Metrics, served: ServedModels, name: str, version: str
) -> list[Mapping[str, Any]]:
    """Return the statistics of versions that serve.

    Args:
        metrics: of all workers.
        served: models that the caller may see.
        name: of a model; empty for all models.
        version: a number or a label; empty for all versions of the model.

    Raises:
        NotFound: no such model, or the version does not serve.
        UnknownLabel: the label is not assigned.
        NotSupported: statistics are switched off.
    """
    if not metrics.wanted:
        raise NotSupported(
            "statistics are those of the metrics, which are switched off",
            Hint(": switch them on by {server.metrics_path}"),
        )
    wanted = _versions(served, model_spec(name, version)) if name else _all(served)
    page = await metrics.page()
    return await in_thread(statistics, page, wanted)


def _all(served: ServedModels) -> Mapping[str, list[int]]:
    return {name: sorted(served.entry(name).stream.available) for name in served.names()}


def _versions(served: ServedModels, model: ModelSpec) -> Mapping[str, list[int]]:
    if model.version is None and model.label is None:
        return {model.name: sorted(served.entry(model.name).stream.available)}
    return {model.name: [served.main(model).version]}
