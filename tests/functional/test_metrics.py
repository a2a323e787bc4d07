"""The page of metrics of a real server, read by the official parser, promtool and Prometheus."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE, Server
from tests.functional.test_transports import predict
from tests.process import PATIENCE_S, Process, free_ports, until

BODY = json.dumps({"instances": [[0.0] * 64]}).encode()
REQUESTS = "ie_serving_requests_total"

PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None, reason="Prometheus is not there: apt-get install prometheus"
)


def read(
    server: Server, name: str, *shown: str, path: str = "/metrics"
) -> dict[tuple[str, ...], float]:
    """Give the samples of a name by the values of the labels `shown`."""
    return {
        tuple(sample.labels[label] for label in shown): sample.value
        for family in text_string_to_metric_families(server.rest.get(path).text)
        for sample in family.samples
        if sample.name == name
    }


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("base")
    shutil.copytree(SAMPLE / "1", base / "1")
    return base


@pytest.fixture(scope="module")
def server(base: Path) -> Iterator[Server]:
    model = ("model", "--model_name=digits", f"--model_path={base}")
    with Server("ie_serving", *model, "--file_system_poll_wait_seconds=0.1") as server:
        yield server.ready()


def test_requests_are_counted_by_version_method_and_code(server: Server) -> None:
    server.rest.post("/v1/models/digits:predict", content=BODY)
    server.prediction.Predict(predict(), PATIENCE_S)
    server.prediction.Predict(predict(), PATIENCE_S)
    server.rest.get("/v1/models/digits")
    server.rest.post("/v1/models/digits:predict", content=b"{")
    with pytest.raises(grpc.RpcError):
        server.prediction.Predict(predict(signature="none"), PATIENCE_S)
    assert read(server, REQUESTS, "model_name", "version", "interface", "method", "code") == {
        ("digits", "1", "REST", "Predict", "OK"): 1,
        ("digits", "1", "gRPC", "Predict", "OK"): 2,
        ("digits", "", "REST", "GetModelStatus", "OK"): 1,
        ("digits", "", "REST", "Predict", "INVALID_ARGUMENT"): 1,
        ("digits", "1", "gRPC", "Predict", "FAILED_PRECONDITION"): 1,
    }
    stages = read(server, "ie_serving_stage_seconds_count", "stage")
    assert stages == {("queue",): 3, ("inference",): 3, ("decode",): 3, ("encode",): 3}
    assert (
        read(server, "ovms_requests_success_total", "interface", "method")["gRPC", "Predict"] == 2
    )
    assert read(server, ":tensorflow:serving:request_count_total", "status")["OK",] == 4
    assert read(server, ":tensorflow:core:graph_runs_total") == {(): 3}


def test_strangers_make_no_series(server: Server) -> None:
    def ask(number: int) -> None:
        server.rest.post(f"/v1/models/stranger-{number}:predict", content=BODY)
        server.rest.post(f"/v1/models/digits/versions/{number}000:predict", content=BODY)

    server.rest.post("/v1/models/digits:predict", content=BODY)

    def series(lines: list[str]) -> set[str]:
        # The lag of the event loop is there from the first look at it on, for every client.
        own = ("#", "ie_serving_event_loop_lag_seconds")
        return {line.rpartition(" ")[0] for line in lines if not line.startswith(own)}

    ask(1)
    before = series(server.rest.get("/metrics").text.splitlines())
    for number in range(2, 20):
        ask(number)
    lines = server.rest.get("/metrics").text.splitlines()
    # TensorFlow Serving's counter alone has them, and no more than a hundred.
    strangers = [line for line in lines if "stranger" in line]
    assert strangers == [
        f':tensorflow:serving:request_count{{model_name="stranger-{number}",status="NOT_FOUND"}} 1'
        for number in range(1, 20)
    ]
    assert "000" not in {labels[0] for labels in read(server, REQUESTS, "version")}
    assert series(lines) - before == series(strangers[1:])


def test_each_family_is_told_once_and_ours_pass_the_lint_of_promtool(server: Server) -> None:
    page = server.rest.get("/metrics").text
    types = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    if shutil.which("promtool"):
        found = subprocess.run(
            ["promtool", "check", "metrics"], input=page, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        remarks = [line for line in found.stderr.splitlines() if line.strip()]
        assert remarks  # on the names of others, which have no HELP
        assert [each for each in remarks if not each.startswith((":tensorflow:", "ovms_"))] == []


LATENCY = ":tensorflow:serving:request_latency"
PREDICT = 'API="predict",entrypoint="REST"'
EXPRESSIONS = (
    "sum by (model_name, status) (rate(:tensorflow:serving:request_count[1m]))",
    f'sum(rate({LATENCY}_bucket{{le="708235"}}[1m])) / sum(rate({LATENCY}_count[1m]))',
    f"histogram_quantile(0.95, sum by (le) (rate({LATENCY}_bucket{{{PREDICT}}}[1m]))) / 1000",
    "rate(:tensorflow:core:graph_run_time_usecs[1m]) / rate(:tensorflow:core:graph_runs[1m])",
    ':tensorflow:cc:saved_model:load_latency{model_path=~".+/1"}',
    "sum by (name) (rate(ovms_inference_time_us_sum[1m]) / rate(ovms_inference_time_us_count[1m]))",
    "histogram_quantile(0.95, sum by (le) (rate(ovms_request_time_us_bucket[1m])))",
    "avg(avg_over_time(ovms_current_requests[1m]) / avg_over_time(ovms_streams[1m])) by (name)",
    "sum(increase(ovms_requests_success{interface='REST',name='digits'}[1m]))",
    "ie_serving_versions",
)
"""Of the forms that dashboards, alerts and autoscalers for the two servers, and ours, have."""


@needs_prometheus
def test_a_real_prometheus_has_what_dashboards_ask_for(server: Server, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "prometheus.yml"
    target = server.url.removeprefix("http://")
    config.write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n"
        f"  - {{job_name: ie_serving, static_configs: [{{targets: ['{target}']}}]}}\n"
    )
    flags = (f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}")
    with (
        Process(str(PROMETHEUS), f"--config.file={config}", *flags) as prometheus,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        prometheus.line("Server is ready to receive web requests")

        def answer(query: str) -> list[str]:
            reply = client.get("/api/v1/query", params={"query": query}).json()
            return [each["value"][1] for each in reply["data"]["result"]]

        until(lambda: answer('up{job="ie_serving"}') == ["1"])
        for expression in EXPRESSIONS:

            def has_series(query: str = expression) -> bool:
                server.rest.post("/v1/models/digits:predict", content=BODY)
                return any(value != "NaN" for value in answer(query))

            until(has_series)


def test_series_of_a_version_that_is_gone_are_gone(server: Server, base: Path) -> None:
    """Last: it changes what is served."""
    server.rest.post("/v1/models/digits:predict", content=BODY)
    counted = read(server, ":tensorflow:serving:request_count_total", "model_name", "status")
    shutil.copytree(base / "1", base / "2")
    until(lambda: read(server, "ie_serving_in_flight_requests", "version").keys() == {("2",)})
    until(lambda: set(read(server, "ie_serving_versions", "state")) == {("AVAILABLE",)})
    assert ("1",) not in read(server, REQUESTS, "version")
    assert (
        read(server, ":tensorflow:serving:request_count_total", "model_name", "status") == counted
    )
    steps = read(server, "ie_serving_version_load_seconds", "version", "step")
    assert steps.keys() == {("2", "fetch"), ("2", "compile"), ("2", "warmup")}


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        (("--metrics_enable",), "ovms_"),
        (("--metrics_enable", "--metrics_list=ovms_streams"), "ovms_streams"),
    ],
)
def test_a_page_of_openvino_model_server_has_its_families_alone(
    serve: Serve, base: Path, more: tuple[str, ...], begins: str
) -> None:
    """For parsers that know no other; the page of all is beside it."""
    server = serve("ie_serving", "--model_name=digits", f"--model_path={base}", *more)
    server.prediction.Predict(predict(), PATIENCE_S)
    names = families(server, "/metrics")
    assert names
    assert all(name.startswith(begins) for name in names)
    assert {"ovms_streams", REQUESTS.removesuffix("_total")} <= families(server, "/metrics/all")


def test_a_page_of_tensorflow_serving_has_its_families_alone(
    serve: Serve, base: Path, tmp_path: Path
) -> None:
    file = tmp_path / "monitoring.config"
    file.write_text("prometheus_config { enable: true }")
    options = ("--model_name=digits", f"--model_base_path={base}")
    server = serve("tensorflow_model_server", *options, f"--monitoring_config_file={file}")
    server.prediction.Predict(predict(), PATIENCE_S)
    names = families(server, "/monitoring/prometheus/metrics")
    assert ":tensorflow:core:graph_runs" in names
    assert all(name.startswith(":tensorflow:") for name in names)
    assert REQUESTS.removesuffix("_total") in families(server, "/metrics")


def families(server: Server, path: str) -> set[str]:
    page = server.rest.get(path).text
    return {family.name for family in text_string_to_metric_families(page)}
