"""What the page says of batches."""

from prometheus_client.parser import text_string_to_metric_families

from ie_serving.telemetry.metrics.page import Metrics


def samples(metrics: Metrics) -> dict[str, float]:
    """Read the page with an independent parser, which adds `_total` to counters."""
    return {
        " ".join([sample.name, *(v for k, v in sample.labels.items() if k != "model_name")]): (
            sample.value
        )
        for family in text_string_to_metric_families(metrics.text())
        for sample in family.samples
    }


class Waiting:
    """A queue in which so many rows wait."""

    sizes = ()

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting


def test_a_model_without_batches_has_no_series() -> None:
    metrics = Metrics()
    metrics.add("m")
    assert "batch" not in metrics.text()


def test_batches_by_reason_with_rows_and_times() -> None:
    metrics = Metrics()
    metrics.add("idle")
    batches = metrics.add('a"b').batches
    batches.alone(3)
    batches.batch("full", 64, [15.0, 500.0])
    batches.batch("full", 70, [])
    batches.apart()
    queues = [Waiting(5), Waiting(2)]
    for queue in queues:
        batches.watch(queue)
    del queue, queues[0]  # its version has gone
    assert 'model_name="a\\"b"' in metrics.text()
    assert "idle" not in metrics.text()
    found = samples(metrics)
    name = "ie_serving_batch"
    assert found[f"{name}es_total lane_free"] == 1
    assert found[f"{name}es_total full"] == 2
    assert found[f"{name}es_apart_total"] == 1
    assert found[f"{name}_waiting_rows"] == 2
    assert [found[f"{name}_rows_bucket {le}"] for le in ("2", "4", "64", "128")] == [
        0,
        1,
        2,
        3,
    ]
    assert (found[f"{name}_rows_sum"], found[f"{name}_rows_count"]) == (137, 3)
    assert found[f"{name}_queue_seconds_count"] == 3
    assert found[f"{name}_queue_seconds_sum"] == 515e-6
    assert found[f"{name}_queue_seconds_bucket 3.24e-05"] == 2
