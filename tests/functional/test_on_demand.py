"""Models that are loaded on demand, by real servers and clients."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

from tests.functional.asking import predict_request
from tests.functional.commands import ie_serving
from tests.functional.conftest import Serve
from tests.functional.servers import PLAIN, SAMPLE, Server, rpc_refused
from tests.process import PATIENCE_S, output_of, until

BODY = json.dumps({"instances": [[0.0] * 64]})
NAMES = tuple("abcdef")


def configured(folder: Path, *names: str, **keys: dict[str, object]) -> str:
    """Write a configuration of models of these names; `keys` has more keys of some."""
    entries = [
        {"config": {"name": name, "base_path": str(SAMPLE), **keys.get(name, {})}} for name in names
    ]
    (folder / "config.json").write_text(json.dumps({"model_config_list": entries}))
    return str(folder / "config.json")


@pytest.fixture
def fleet(tmp_path: Path, serve: Serve) -> Server:
    """A server of six models that requests load."""
    file = configured(tmp_path, *NAMES)
    return serve("ie_serving", "config", f"--config_path={file}", "--load=on_demand")


def states(server: Server, name: str) -> list[tuple[str, str]]:
    found = server.rest.get(f"/v1/models/{name}").json()["model_version_status"]
    return [(each["state"], each["status"]["error_message"]) for each in found]


def awaited_states(server: Server, name: str, wanted: str) -> None:
    """Wait until each version of a model is in a state."""
    until(lambda: {state for state, _ in states(server, name)} == {wanted})


def test_a_model_is_known_and_ready_before_it_is_loaded(fleet: Server) -> None:
    assert states(fleet, "a") == [("START", "not loaded: the first request loads it")]
    status = fleet.status("a")[0]
    assert (status.version, status.state, status.status.error_code) == (2, 10, 0)
    for path in ("/v2/health/ready", "/v2/models/a/ready", "/v2/models/a/versions/2/ready"):
        assert fleet.rest.get(path).status_code == 200, path
    assert fleet.rest.get("/v2/models/a/versions/1/ready").status_code != 200
    assert states(fleet, "a")[0][0] == "START"  # to ask is no use


def test_the_first_request_of_each_interface_loads(fleet: Server) -> None:
    assert fleet.rest.post("/v1/models/a:predict", content=BODY).status_code == 200
    request = predict_request("b", image=_tensor())
    assert fleet.prediction.Predict(request, timeout=PATIENCE_S).model_spec.version.value == 2
    asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    asked.model_spec.name = "c"
    assert fleet.prediction.GetModelMetadata(asked).model_spec.version.value == 2
    assert fleet.rest.get("/v1/models/d/metadata").status_code == 200
    infer = {
        "inputs": [{"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0.0] * 64}]
    }
    assert fleet.rest.post("/v2/models/e/infer", json=infer).status_code == 200
    assert fleet.rest.get("/v2/models/f").status_code == 200
    assert {states(fleet, name)[0][0] for name in NAMES} == {"AVAILABLE"}


def test_a_model_that_cannot_be_loaded_is_refused_as_ever(fleet: Server) -> None:
    assert fleet.rest.post("/v1/models/a/versions/7:predict", content=BODY).status_code == 404
    assert fleet.rest.post("/v1/models/z:predict", content=BODY).status_code == 404
    assert states(fleet, "a")[0][0] == "START"


def test_many_first_requests_share_one_load(fleet: Server) -> None:
    def ask(_: int) -> int:
        with httpx.Client(
            base_url=fleet.url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN
        ) as client:
            return client.post("/v1/models/a:predict", content=BODY).status_code

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(32))) == [200] * 32
    assert fleet.sample('ie_serving_loads_total{model_name="a",result="ok"}') == 1
    assert fleet.sample('ie_serving_on_demand_requests_total{model_name="a"}') == 32
    assert fleet.sample('ie_serving_on_demand_waits_total{model_name="a"}') >= 1


def test_without_a_wait_the_first_request_is_told_to_come_again(
    tmp_path: Path, serve: Serve
) -> None:
    file = configured(tmp_path, "a", "b")
    flags = ("--load=on_demand", "--load_wait_seconds=0")
    server = serve("ie_serving", "config", f"--config_path={file}", *flags)
    reply = server.rest.post("/v1/models/a:predict", content=BODY)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert "being loaded" in reply.json()["error"]
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "b"
    with rpc_refused("UNAVAILABLE"):
        server.prediction.Predict(request, timeout=PATIENCE_S)
    awaited_states(server, "a", "AVAILABLE")
    assert server.rest.post("/v1/models/a:predict", content=BODY).status_code == 200
    page = server.rest.get("/metrics").text
    ours = [line for line in page.splitlines() if line.startswith("ie_serving_requests_total")]
    assert [line[-1] for line in ours if "UNAVAILABLE" in line and '"a"' in line] == ["1"]


def test_an_idle_model_is_unloaded_and_loaded_again(tmp_path: Path, serve: Serve) -> None:
    file = configured(tmp_path, "a", "b", b={"pinned": True})
    flags = ("--load=on_demand", "--idle_unload_timeout_seconds=0.3")
    server = serve("ie_serving", "config", f"--config_path={file}", *flags)
    for _ in range(2):
        assert server.rest.post("/v1/models/a:predict", content=BODY).status_code == 200
        assert server.rest.post("/v1/models/b:predict", content=BODY).status_code == 200
        awaited_states(server, "a", "START")
        assert states(server, "b") == [("AVAILABLE", "")]
    assert server.sample('ie_serving_on_demand_unloads_total{model_name="a",cause="idle"}') == 2


def test_models_wanted_back_while_they_are_unloaded_are_unloaded_again(
    tmp_path: Path, serve: Serve
) -> None:
    file = configured(tmp_path, "a")
    flags = ("--load=on_demand", "--idle_unload_timeout_seconds=0.1")
    server = serve("ie_serving", "config", f"--config_path={file}", *flags)
    unloads = 'ie_serving_on_demand_unloads_total{model_name="a",cause="idle"}'
    pause = threading.Event()
    for turn in range(60):
        reply = server.rest.post("/v1/models/a:predict", content=BODY)
        assert reply.status_code == 200, reply.text
        pause.wait(0.095 + turn % 10 / 1000)  # about when the model is unloaded
    before = server.sample(unloads)
    assert server.rest.post("/v1/models/a:predict", content=BODY).status_code == 200
    until(lambda: server.sample(unloads) > before)


def test_a_load_that_can_never_fit_names_both_figures(tmp_path: Path, serve: Serve) -> None:
    file = configured(tmp_path, "a", "b", b={"load": "always"})
    flags = ("--load=on_demand", "--model_memory_budget_bytes=1000000")
    server = serve("ie_serving", "config", f"--config_path={file}", *flags)
    reply = server.rest.post("/v1/models/a:predict", content=BODY)
    assert reply.status_code == 429
    assert "of the budget of 1000000 bytes there are at most 0 for it" in reply.json()["error"]
    assert "--model_memory_budget_bytes" in reply.json()["error"]
    assert server.rest.post("/v1/models/b:predict", content=BODY).status_code == 200


def test_a_budget_that_the_start_uses_up_is_told_with_both_figures(
    tmp_path: Path, serve: Serve
) -> None:
    """Each of two workers has half of it, which also the refusal tells; the page sums them up."""
    file = configured(tmp_path, "a", "b", b={"load": "always"})
    flags = ("--load=on_demand", "--workers=2", "--model_memory_budget_bytes=3000000")
    server = serve("ie_serving", "config", f"--config_path={file}", *flags, "--log_format=json")
    found = []

    def both_have_told() -> bool:
        lines = [json.loads(each) for each in server.log.splitlines() if each.startswith("{")]
        said = "no room in the budget for models on demand"
        found[:] = [each["fields"] for each in lines if each["message"] == said]
        return len(found) == 2

    until(both_have_told)
    assert {each["budget_bytes"] for each in found} == {1_500_000}
    assert all(each["resident_bytes"] > 20_000_000 for each in found)
    reply = server.rest.post("/v1/models/a:predict", content=BODY)
    assert reply.status_code == 429
    assert "of the budget of 1500000 bytes" in reply.json()["error"]
    assert server.sample("ie_serving_on_demand_budget_limit_bytes") == 3_000_000
    assert server.sample("ie_serving_on_demand_budget_held_bytes") > 40_000_000
    assert server.sample('ie_serving_on_demand_refused_total{model_name="a"}') == 1


def test_the_page_tells_which_models_are_loaded_and_the_budget(
    tmp_path: Path, serve: Serve
) -> None:
    file = configured(tmp_path, "a", "b")
    flags = ("--load=on_demand", "--model_memory_budget_bytes=4000000000")
    server = serve("ie_serving", "config", f"--config_path={file}", *flags)
    assert server.rest.post("/v1/models/a:predict", content=BODY).status_code == 200
    state = server.rest.get("/page/state").json()
    assert {each["name"]: each["is_loaded"] for each in state["models"]} == {"a": True, "b": False}
    assert state["server"]["budget"]["limit"] == 4_000_000_000
    assert 20_000_000 < state["server"]["budget"]["held"] < 4_000_000_000
    shown = "\n".join(output_of("ie_serving", "status", "--url", server.url))
    assert shown.count("not loaded: the first request loads it") == 1
    assert "1 of 2 models loaded, the others on demand; " in shown
    assert " held of a budget of 4.0 GB" in shown
    assert "worker" not in shown


def test_a_label_means_a_version_that_is_not_loaded_yet(tmp_path: Path, serve: Serve) -> None:
    keys = {"version_labels": {"stable": 1}, "model_version_policy": {"all": {}}}
    file = configured(tmp_path, "a", a=keys)
    server = serve("ie_serving", "config", f"--config_path={file}", "--load=on_demand")
    body = json.dumps({"instances": [[0.0] * 64]})
    reply = server.rest.post("/v1/models/a/labels/stable:predict", content=body)
    assert reply.status_code == 200, reply.text
    assert {state for state, _ in states(server, "a")} == {"AVAILABLE"}


def test_a_graph_loads_the_models_that_it_uses_and_keeps_them(tmp_path: Path, serve: Serve) -> None:
    step = {"model": "a", "in": {"image": "request.image"}}
    graph = {"steps": {"first": step}, "outputs": {"digit": "first.digit"}}
    (tmp_path / "g" / "1").mkdir(parents=True)
    (tmp_path / "g" / "1" / "graph.json").write_text(json.dumps(graph))
    entry = {"base_path": str(tmp_path / "g")}
    file = configured(tmp_path, "a", "g", g=entry)
    flags = ("--load=on_demand", "--idle_unload_timeout_seconds=0.3")
    server = serve("ie_serving", "config", f"--config_path={file}", *flags)
    assert server.rest.post("/v1/models/g:predict", content=BODY).status_code == 200
    awaited_states(server, "g", "START")
    assert states(server, "a") == [("AVAILABLE", "")]


def test_each_worker_loads_what_it_is_asked_for(tmp_path: Path, serve: Serve) -> None:
    file = configured(tmp_path, "a", "b")
    flags = ["--load=on_demand", "--workers=2", "--idle_unload_timeout_seconds=1"]
    flags += ["--model_memory_budget_bytes=4000000000"]
    server = serve("ie_serving", "config", f"--config_path={file}", *flags)
    for _ in range(20):  # each over a connection of its own, which either worker takes
        reply = httpx.post(
            f"{server.url}/v1/models/a:predict", content=BODY, trust_env=False, verify=PLAIN
        )
        assert reply.status_code == 200, reply.text
        found = httpx.get(f"{server.url}/v1/models/a", trust_env=False, verify=PLAIN).json()
        assert found["model_version_status"][0]["state"] == "AVAILABLE"
    assert {state for state, _ in states(server, "b")} == {"START"}
    (*_, told) = output_of("ie_serving", "status", "--url", server.url)
    assert re.search(r"held of a budget of 2\.0 GB by the worker asked, one of 2$", told)
    awaited_states(server, "a", "START")


def _tensor() -> object:
    import tensorflow as tf

    return tf.make_tensor_proto(np.zeros((1, 64), np.float32))


def test_a_model_whose_new_place_is_not_there_goes_on_answering(
    tmp_path: Path, serve: Serve
) -> None:
    file = configured(tmp_path, "a")
    server = serve("ie_serving", "config", f"--config_path={file}", "--load=on_demand")
    assert server.rest.post("/v1/models/a:predict", content=BODY).status_code == 200
    configured(tmp_path, "a", a={"base_path": str(tmp_path / "mistyped")})
    ie_serving("reload", f"--url={server.url}")
    assert "mistyped" in ie_serving("status", f"--url={server.url}").out
    assert server.rest.post("/v1/models/a:predict", content=BODY).status_code == 200
