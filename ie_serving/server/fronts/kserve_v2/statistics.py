"""Triton's statistics of the versions that a request names, read from the metrics page.

So they cost nothing until a client asks for them, agree with the page, and include all workers.
Source: `extension_statistics.md` of triton-inference-server/server.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import NotSupported
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.requests import ModelSpec
from ie_serving.models.served_models import ServedModels
from ie_serving.server.fronts.kserve_v2.servable_lookup import model_spec
from ie_serving.telemetry.metrics.ovms_families import INFERRING
from ie_serving.telemetry.metrics.page import REQUEST_DURATION, REQUESTS, Metrics
from ie_serving.telemetry.metrics.summed_page import counted
from ie_serving.telemetry.metrics.text import escape
from ie_serving.telemetry.metrics.version_metrics import STAGE

STAGES: Final[Mapping[str, str]] = {
    "queue": "queue",
    "compute_input": "decode",
    "compute_infer": "inference",
    "compute_output": "encode",
}
"""Our names by Triton's."""
_NONE: Final = {"count": 0, "ns": 0}
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

StatisticValues = Mapping[tuple[str, str], float]
"""Sums of values on the page, by kind and version: `STAGES`, and the outcomes of requests."""


def statistics(page: bytes, wanted: Mapping[str, Iterable[int]]) -> list[Mapping[str, Any]]:
    """Return the statistics of versions in the form of JSON, and of ModelStatistics.

    Unknown values are 0: the time of failed requests, and the time of the last one. A request
    counts as one inference, whatever its number of rows. Batches are not split by size.

    Args:
        page: page of all workers.
        wanted: versions to report, by the model's name.
    """
    numbers = _numbers(page)
    return [
        _of_version(numbers[escape(model)], model, str(version))
        for model, versions in wanted.items()
        for version in versions
    ]


def _of_version(numbers: StatisticValues, model: str, version: str) -> Mapping[str, Any]:
    def duration(kind: str) -> Mapping[str, int]:
        seconds, count = (numbers.get((f"{kind} {part}", version), 0) for part in ("sum", "count"))
        return {"count": int(count), "ns": round(1e9 * seconds)}

    success = duration("success")
    stages = {name: duration(stage) for name, stage in STAGES.items()}
    return {
        "name": model,
        "version": version,
        "last_inference": 0,
        "inference_count": success["count"],
        "execution_count": stages["compute_infer"]["count"],
        "inference_stats": {
            "success": success,
            "fail": {"count": int(numbers.get(("fail", version), 0)), "ns": 0},
            **stages,
            "cache_hit": _NONE,
            "cache_miss": _NONE,
        },
        "batch_stats": [],
    }


def _numbers(page: bytes) -> Mapping[str, StatisticValues]:
    """Sum up the page's values by model, whose name is escaped."""
    found: defaultdict[str, defaultdict[tuple[str, str], float]]
    found = defaultdict(lambda: defaultdict(float))
    for series, number in counted(page).items():
        sample, _, rest = series.partition("{")
        labels = dict(_LABEL.findall(rest))
        if "model_name" in labels and (kind := _kind(sample, labels)):
            found[labels["model_name"]][kind, labels.get("version", "")] += number
    return found


def _kind(sample: str, labels: Mapping[str, str]) -> str:
    """Return the kind that a sample counts; empty if it is not used here."""
    family, _, part = sample.rpartition("_")
    if family == STAGE and part in ("sum", "count"):
        return f"{labels['stage']} {part}"
    if labels.get("method") not in INFERRING:
        return ""
    if family == REQUEST_DURATION and part in ("sum", "count"):
        return f"success {part}"
    return "fail" if sample == REQUESTS and labels["code"] != "OK" else ""


async def statistics_of(
    metrics: Metrics, served: ServedModels, name: str, version: str
) -> list[Mapping[str, Any]]:
    """Return the statistics of versions that serve.

    Args:
        metrics: metrics of all workers.
        served: models that the caller may see.
        name: name of a model; empty for all models.
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
    page = bytes(await metrics.page())
    return await in_thread(statistics, page, wanted)


def _all(served: ServedModels) -> Mapping[str, list[int]]:
    return {name: sorted(served.entry(name).stream.available) for name in served.names()}


def _versions(served: ServedModels, model: ModelSpec) -> Mapping[str, list[int]]:
    if model.version is None and model.label is None:
        return {model.name: sorted(served.entry(model.name).stream.available)}
    return {model.name: [served.main(model).version]}
