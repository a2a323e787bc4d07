"""What the page says of batches."""

from ie_serving.telemetry.metrics.page import Metrics
from tests.unit.telemetry.pages import of


class Waiting:
    """A queue in which so many rows wait."""

    sizes = ()

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting


def test_a_model_without_batches_has_no_series() -> None:
    metrics = Metrics()
    metrics.add("m")
    assert "batch" not in metrics.text()


def test_batches_are_counted_by_reason_with_rows_and_times() -> None:
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
    name = "ie_serving_batch"
    reasons = of(metrics, f"{name}es_total", "reason")
    assert reasons == {("lane_free",): 1, ("full",): 2}
    assert of(metrics, f"{name}es_apart_total") == {(): 1}
    assert of(metrics, f"{name}_waiting_rows") == {(): 2}
    rows = of(metrics, f"{name}_rows_bucket", "le")
    assert [rows[(le,)] for le in ("2", "4", "64", "128")] == [0, 1, 2, 3]
    assert of(metrics, f"{name}_rows_sum") == {(): 137}
    assert of(metrics, f"{name}_rows_count") == {(): 3}
    assert of(metrics, f"{name}_queue_seconds_count") == {(): 3}
    assert of(metrics, f"{name}_queue_seconds_sum") == {(): 515e-6}
    assert of(metrics, f"{name}_queue_seconds_bucket", le="3.24e-05") == {(): 2}
