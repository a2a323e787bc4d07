"""Each family of OpenVINO Model Server: its name, type, labels, and what it counts."""

from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.requests import SeriesKey
from tests.unit.telemetry.pages import GRPC, REST, Version, fail, families, of, serve

VERSION = {"name", "version"}
FAMILIES = {
    "ovms_requests_success": ("counter", {"api", "interface", "method"} | VERSION),
    "ovms_requests_fail": ("counter", {"api", "interface", "method"} | VERSION),
    "ovms_request_time_us": ("histogram", {"interface"} | VERSION),
    "ovms_inference_time_us": ("histogram", VERSION),
    "ovms_wait_for_infer_req_time_us": ("histogram", VERSION),
    "ovms_current_requests": ("gauge", VERSION),
    "ovms_streams": ("gauge", VERSION),
    "ovms_infer_req_queue_size": ("gauge", VERSION),
    "ovms_infer_req_active": ("gauge", VERSION),
    "ovms_requests_accepted": ("counter", {"api", "interface", "method", "name"}),
    "ovms_requests_rejected": ("counter", {"api", "interface", "method", "name"}),
    "ovms_responses": ("counter", {"api", "interface", "method", "name"}),
    "ovms_graph_error": ("counter", {"api", "interface", "method", "name"}),
    "ovms_current_graphs": ("gauge", {"name"}),
    "ovms_graph_processing_time_us": ("histogram", {"method", "name"}),
}
INFER = SeriesKey("1", "REST", "ModelInfer", "")


class Pool:
    """Of three infer requests, one of which is lent."""

    size = 3
    free = (1, 2)


POOL = Pool()


def loaded() -> Metrics:
    metrics, version = Metrics(is_ovms=True), Version("m", 1, holders=2)
    version.inferences.pools.add(POOL)
    version.inferences.streams = 4
    metrics.show_versions(lambda: [version])
    metrics.keep(["m"])
    return metrics


def test_names_types_and_labels() -> None:
    metrics = loaded()
    metrics.add("m").steps.is_graph = True
    serve(metrics, "m", INFER)
    fail(metrics, "m", "INVALID_ARGUMENT", INFER)
    assert families(metrics, "ovms_") == FAMILIES


def test_a_version_has_its_series_from_the_load_on() -> None:
    """An `increase` over a fresh model sees the first requests, then."""
    metrics = loaded()
    shown = ("api", "interface", "method", "version")
    for name in ("ovms_requests_success_total", "ovms_requests_fail_total"):
        assert of(metrics, name, *shown) == {
            (api, interface, method, version): 0
            for interface in ("gRPC", "REST")
            for api, method, version in (
                ("TensorFlowServing", "Predict", "1"),
                ("TensorFlowServing", "GetModelMetadata", "1"),
                ("TensorFlowServing", "GetModelStatus", ""),
                ("KServe", "ModelInfer", "1"),
                ("KServe", "ModelMetadata", "1"),
                ("KServe", "ModelReady", ""),
            )
        }
    times = of(metrics, "ovms_request_time_us_count", "interface")
    assert times == {("gRPC",): 0, ("REST",): 0}
    assert of(metrics, "ovms_inference_time_us_count") == {(): 0}
    serve(metrics, "m", GRPC)
    counted = of(metrics, "ovms_requests_success_total", "interface", method="Predict")
    assert counted == {("gRPC",): 1, ("REST",): 0}


def test_elsewhere_a_version_has_them_from_the_first_request_on() -> None:
    """They would make the page of a thousand idle models large."""
    metrics = Metrics()
    metrics.show_versions(lambda: [Version("m", 1)])
    assert "ovms_requests" not in metrics.text()
    assert "ovms_request_time_us" not in metrics.text()


def test_streams_and_infer_requests() -> None:
    metrics = loaded()
    assert of(metrics, "ovms_streams") == {(): 4}
    assert of(metrics, "ovms_infer_req_queue_size") == {(): 3}
    assert of(metrics, "ovms_infer_req_active") == {(): 1}
    assert of(metrics, "ovms_current_requests") == {(): 2}


def test_an_unknown_model_has_no_series() -> None:
    metrics = loaded()
    before = of(metrics, "ovms_requests_fail_total", "name")
    fail(metrics, "none", "NOT_FOUND", REST)
    assert of(metrics, "ovms_requests_fail_total", "name") == before


def test_a_graph_counts_what_it_begins_with_and_what_became_of_it() -> None:
    metrics = loaded()
    assert "ovms_requests_accepted" not in metrics.text()
    assert "ovms_graph" not in metrics.text()
    metrics.add("m").steps.is_graph = True
    shown = "interface", "method"
    fresh = {(i, m): 0 for i in ("gRPC", "REST") for m in ("Predict", "ModelInfer")}
    counters = "requests_accepted", "requests_rejected", "responses", "graph_error"
    for name in counters:
        assert of(metrics, f"ovms_{name}_total", *shown) == fresh
    serve(metrics, "m", INFER)
    for status in ("INTERNAL", "INVALID_ARGUMENT"):
        metrics.served("m", INFER).decoded.append(0.001)
        metrics.count_failed("m", INFER, status, begun=True)
    fail(metrics, "m", "INVALID_ARGUMENT", INFER)
    metrics.served("m", INFER).decoded.append(0.001)  # computes
    labels = {"api": "KServe", "interface": "REST", "method": "ModelInfer", "name": "m"}
    counted = [of(metrics, f"ovms_{name}_total", **labels)[()] for name in counters]
    assert counted == [4, 1, 1, 2]
    assert of(metrics, "ovms_current_graphs", "name") == {("m",): 2}
    times = of(metrics, "ovms_graph_processing_time_us_count", "method")
    assert times == {("Predict",): 0, ("ModelInfer",): 1}
