"""Pages of metrics, read with the official client library's parser; and requests to be counted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from ie_serving.telemetry.metrics.inferences import Inferences
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.requests import SeriesKey

GRPC = SeriesKey("1", "GRPC", "Predict", "Predict")
REST = SeriesKey("1", "REST", "Predict", "predict")

Labels = frozenset[tuple[str, str]]


@dataclass
class Version:
    """An AVAILABLE version, as the page asks for it."""

    name: str
    version: int
    holders: int = 0
    inferences: Inferences = field(default_factory=Inferences)
    load_s: Mapping[str, float] = field(default_factory=dict)
    memory: int | None = None


def samples(metrics: Metrics) -> dict[tuple[str, Labels], float]:
    """Give the samples by name, to which the parser adds `_total` for counters, and labels."""
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text())
        for sample in family.samples
    }
    assert len(found) == sum(line[:1] not in ("#", "") for line in metrics.text().splitlines())
    return found


def of(metrics: Metrics, name: str, /, *shown: str, **labels: str) -> dict[tuple[str, ...], float]:
    """Give the samples of a name that have these labels, by the values of the labels `shown`."""
    return {
        tuple(dict(given).get(label, "") for label in shown): value
        for (found, given), value in samples(metrics).items()
        if found == name and given >= frozenset(labels.items())
    }


def families(metrics: Metrics, prefix: str) -> dict[str, tuple[str, set[str]]]:
    """Give the type and the labels, `le` apart, of each family whose name begins so."""
    return {
        family.name: (family.type, {each for s in family.samples for each in s.labels} - {"le"})
        for family in text_string_to_metric_families(metrics.text())
        if family.name.startswith(prefix)
    }


def serve(metrics: Metrics, model: str, key: SeriesKey, seconds: float = 0.001) -> None:
    """Count a request that has succeeded."""
    served = metrics.served(model, key)
    served.decoded.append(seconds)
    served.add(seconds)


def fail(metrics: Metrics, model: str, status: str, key: SeriesKey = GRPC) -> None:
    """Count a request that has failed."""
    metrics.count_failed(model, key, status)
