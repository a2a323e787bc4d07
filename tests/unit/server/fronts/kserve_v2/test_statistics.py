"""Triton's statistics, of what the page of metrics says."""

from ie_serving.server.fronts.kserve_v2.statistics import statistics
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.requests import SeriesKey
from ie_serving.telemetry.metrics.summed_page import summed
from tests.unit.telemetry.pages import GRPC, Version

NONE = {"count": 0, "ns": 0}
NAME = 'digits "a\\b"'
"""Whatever its label has to escape."""


def page() -> bytes:
    """Two requests of version 1, by a batch; one that failed; and others that ran no model."""
    metrics = Metrics()
    version = Version(NAME, 1)
    version.inferences.ran.append(0.25)
    version.inferences.waited(0.125)
    metrics.show_versions(lambda: [version, Version(NAME, 2)])
    served = metrics.served(NAME, GRPC)
    for seconds in (0.5, 1.0):
        served.decoded.append(seconds / 4)
        served.encoded.append(seconds / 8)
        served.add(seconds)
    metrics.served(NAME, SeriesKey("1", "REST", "GetModelMetadata", "metadata")).add(7.0)
    metrics.served("other", GRPC).add(9.0)
    metrics.of(NAME).requests.count(GRPC, "INVALID_ARGUMENT")
    return metrics.text().encode()


def test_counts_of_the_page_become_statistics() -> None:
    first, second = statistics(page(), {NAME: [1, 2]})
    assert first == {
        "name": NAME,
        "version": "1",
        "last_inference": 0,
        "inference_count": 2,
        "execution_count": 1,
        "inference_stats": {
            "success": {"count": 2, "ns": 1_500_000_000},
            "fail": {"count": 1, "ns": 0},
            "queue": {"count": 1, "ns": 125_000_000},
            "compute_input": {"count": 2, "ns": 375_000_000},
            "compute_infer": {"count": 1, "ns": 250_000_000},
            "compute_output": {"count": 2, "ns": 187_500_000},
            "cache_hit": NONE,
            "cache_miss": NONE,
        },
        "batch_stats": [],
    }
    assert (second["version"], second["inference_count"]) == ("2", 0)
    assert set(map(str, second["inference_stats"].values())) == {str(NONE)}


def test_all_workers_count() -> None:
    (told,) = statistics(summed([page(), page()], {}), {NAME: [1]})
    assert (told["inference_count"], told["execution_count"]) == (4, 2)
