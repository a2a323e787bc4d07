"""Each family of TensorFlow Serving: its name, type, labels, and what it counts."""

from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.requests import SeriesKey
from tests.tables import named_by
from tests.unit.telemetry.pages import GRPC, REST, Version, fail, families, of, serve

FAMILIES = {
    ":tensorflow:serving:request_count": ("counter", {"model_name", "status"}),
    ":tensorflow:serving:request_latency": ("histogram", {"model_name", "API", "entrypoint"}),
    ":tensorflow:serving:runtime_latency": ("histogram", {"model_name", "API", "runtime"}),
    ":tensorflow:core:graph_runs": ("counter", set()),
    ":tensorflow:core:direct_session_runs": ("counter", set()),
    ":tensorflow:core:graph_run_time_usecs": ("counter", set()),
    ":tensorflow:core:graph_run_time_usecs_histogram": ("histogram", set()),
    ":tensorflow:core:graph_build_calls": ("counter", set()),
    ":tensorflow:core:graph_build_time_usecs": ("counter", set()),
    ":tensorflow:cc:saved_model:load_attempt_count": ("counter", {"model_path", "status"}),
    ":tensorflow:cc:saved_model:load_latency": ("counter", {"model_path"}),
    ":tensorflow:serving:batching_session:queuing_latency": ("histogram", {"thread_pool_name"}),
    ":tensorflow:serving:batching_session:input_batch_size": ("histogram", set()),
    ":tensorflow:serving:batching_session:processed_batch_size": ("histogram", set()),
    ":tensorflow:serving:batching_session:padding_size": ("histogram", {"execution_batch_size"}),
}
SERVING, CORE = ":tensorflow:serving:", ":tensorflow:core:"


class Queue:
    waiting = 0
    sizes = (4, 8)


def used() -> tuple[Metrics, list[Version]]:
    """A model with a version that has inferred twice, in 1 and 3 ms, and with three batches."""
    metrics, version = Metrics(), Version("m", 1, load_s={"fetch_s": 9.0, "compile_s": 0.5})
    live = [version]
    metrics.show_versions(lambda: live)
    metrics.show_states(lambda: [(each.name, each.version, "AVAILABLE") for each in live])
    metrics.keep(["m"])
    metrics.add("m").count_load("/models/m/", 1, succeeded=False)
    metrics.add("m").count_load("/models/m/", 1, succeeded=True)
    for seconds in (0.001, 0.003):
        version.inferences.ran.append(seconds)
        serve(metrics, "m", GRPC, seconds)
    queue, batches = Queue(), metrics.add("m").batches
    batches.watch(queue)
    batches.alone(1)
    batches.batch("full", 8, [50.0])
    batches.batch("timeout", 5, [50.0])
    return metrics, live


def test_names_types_and_labels() -> None:
    metrics, _ = used()
    assert families(metrics, ":tensorflow:") == FAMILIES
    assert "# HELP :tensorflow" not in metrics.text()
    assert f"\n{CORE}graph_runs{{}} 2\n" in metrics.text()


def test_an_inference_is_a_run_and_a_load_a_build() -> None:
    metrics, _ = used()
    for name in ("graph_runs", "direct_session_runs"):
        assert of(metrics, f"{CORE}{name}_total") == {(): 2}
    assert of(metrics, f"{CORE}graph_run_time_usecs_total") == {(): 4000}
    assert of(metrics, f"{CORE}graph_run_time_usecs_histogram_count") == {(): 2}
    assert of(metrics, f"{CORE}graph_run_time_usecs_histogram_sum") == {(): 4000}
    assert of(metrics, f"{CORE}graph_build_calls_total") == {(): 1}
    assert of(metrics, f"{CORE}graph_build_time_usecs_total") == {(): 500_000}
    labels = {"model_name": "m", "API": "Predict", "runtime": "TF1"}
    assert of(metrics, f"{SERVING}runtime_latency_sum", **labels) == {(): 4000}


def test_loads_by_path() -> None:
    metrics, live = used()
    name = ":tensorflow:cc:saved_model:load_attempt_count_total"
    both = {("/models/m/1", "fail"): 1, ("/models/m/1", "success"): 1}
    assert of(metrics, name, "model_path", "status") == both
    latency = ":tensorflow:cc:saved_model:load_latency_total"
    assert of(metrics, latency, "model_path") == {("/models/m/1",): 500_000}
    live[:] = [Version("m", 2)]
    assert of(metrics, name) == of(metrics, latency) == {}  # else each version stayed for ever


def test_totals_of_all_models_never_fall() -> None:
    metrics, live = used()
    before = of(metrics, f"{CORE}graph_runs_total")
    live[:] = [Version("m", 2)]
    assert of(metrics, f"{CORE}graph_runs_total") == before
    assert of(metrics, f"{SERVING}runtime_latency_count", "model_name") == {("m",): 2}
    metrics.keep(())
    live.clear()
    assert of(metrics, f"{CORE}graph_runs_total") == before
    assert of(metrics, f"{SERVING}runtime_latency_count", "model_name") == {}
    assert of(metrics, f"{SERVING}batching_session:input_batch_size_count") == {(): 3}


def test_batches_before_and_after_they_are_filled_up() -> None:
    """Of 1, 5 and 8 rows, filled up to 4 and 8."""
    metrics, _ = used()
    session = f"{SERVING}batching_session:"
    assert of(metrics, f"{session}input_batch_size_sum") == {(): 14}
    assert of(metrics, f"{session}processed_batch_size_sum") == {(): 20}
    assert of(metrics, f"{session}padding_size_sum", "execution_batch_size") == {
        ("4",): 3,
        ("8",): 3,
    }
    assert of(metrics, f"{session}queuing_latency_sum", "thread_pool_name") == {
        ("batch_threads",): 100
    }
    assert of(metrics, f"{session}queuing_latency_count") == {(): 3}


@named_by(
    "entrypoint method",
    ("entrypoint", "method", "counted"),
    [
        ("GRPC", "Predict", 2),
        ("GRPC", "Classify", 2),
        ("GRPC", "MultiInference", 0),
        ("GRPC", "GetModelMetadata", 0),
        ("GRPC", "GetModelStatus", 0),
        ("REST", "GetModelStatus", 2),
        ("REST", "GetModelMetadata", 2),
        ("REST", "ModelMetadata", 0),
    ],
)
def test_requests_are_counted_by_entrypoint_and_method(
    entrypoint: str, method: str, counted: int
) -> None:
    """Of gRPC those that infer, of REST all; also when their version has gone."""
    metrics, versions = Metrics(), [("m", 1, "AVAILABLE")]
    metrics.show_states(lambda: versions)
    key = SeriesKey("1", entrypoint, method, method)
    serve(metrics, "m", key)
    fail(metrics, "m", "INTERNAL", key)
    for version in (1, 2):
        versions[:] = [("m", version, "AVAILABLE")]
        assert len(of(metrics, f"{SERVING}request_count_total", "status")) == counted
        assert len(of(metrics, f"{SERVING}request_latency_count")) == counted // 2


def test_an_unknown_model_has_the_name_that_was_asked_for_also_once_it_serves() -> None:
    metrics = Metrics()
    fail(metrics, "new", "NOT_FOUND", REST)
    fail(metrics, "", "INVALID_ARGUMENT", REST)
    name = f"{SERVING}request_count_total"
    assert of(metrics, name, "model_name", "status") == {
        ("new", "NOT_FOUND"): 1,
        ("", "INVALID_ARGUMENT"): 1,
    }
    metrics.keep(["new"])
    serve(metrics, "new", REST)
    assert of(metrics, name, "status", model_name="new") == {("NOT_FOUND",): 1, ("OK",): 1}
