"""Split traffic: shares, sticky clients, live changes, and a bad canary that is rolled back."""

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import numpy as np
import pytest
import tensorflow as tf
import tritonclient.grpc
from tensorflow_serving.apis import (
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.functional.conftest import Serve
from tests.functional.graph_models import times_version
from tests.functional.servers import PLAIN, Server, config_flag
from tests.functional.tiny import Gate
from tests.process import PATIENCE_S, until

FLAGS = ("--file_system_poll_wait_seconds=0.1", "--config_poll_wait_seconds=0.1")
LABELS = {"stable": 1, "canary": 2}
GATED = Path(__file__).with_name("gated_server.py")


REGRESS = {"method": "regress", "features": {"x": "x"}, "outputs": {"outputs": "y"}}


def write(base: Path, version: int, name: str = "x", *, regress: bool = False) -> None:
    """Write a version in one step: y is the version's number times its input."""
    beside = times_version(base, version, name, columns=1 if regress else 2)
    if regress:
        (beside / "signatures.json").write_text(json.dumps({"signatures": {"r": REGRESS}}))
    beside.rename(base / str(version))


def configure(base: Path, **keys: object) -> str:
    entry = {"name": "m", "base_path": str(base), "version_labels": LABELS, **keys}
    beside = base.parent / "new.json"
    config_flag(beside, entry)
    beside.rename(base.parent / "config.json")
    return str(base.parent / "config.json")


def serving(serve: Serve, base: Path, **keys: object) -> Server:
    server = serve("ie_serving", "config", f"--config_path={configure(base, **keys)}", *FLAGS)
    until(lambda: len(available(server)) == 2)
    return server


def available(server: Server) -> list[str]:
    found = server.rest.get("/v1/models/m").json()["model_version_status"]
    return [each["version"] for each in found if each["state"] == "AVAILABLE"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "m").mkdir()
    write(tmp_path / "m", 1)
    write(tmp_path / "m", 2)
    return tmp_path / "m"


# -- which version has answered: by the output, since y is the version for x of 1 ----------------


def tfs_rest(server: Server, user: str | None = None) -> int:
    headers = {"X-User": user} if user else {}
    reply = server.rest.post(
        "/v1/models/m:predict", json={"inputs": {"x": [[1.0, 1.0]]}}, headers=headers
    )
    return int(reply.json()["outputs"][0][0])


def tfs_grpc(server: Server, user: str | None = None) -> int:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "m"
    request.inputs["x"].dtype = 1
    for size in (1, 2):
        request.inputs["x"].tensor_shape.dim.add().size = size
    request.inputs["x"].float_val.extend([1.0, 1.0])
    metadata = [("x-user", user)] if user else []
    reply = server.prediction.Predict(request, timeout=PATIENCE_S, metadata=metadata)
    (y, _) = np.frombuffer(reply.outputs["y"].tensor_content, np.float32)
    assert reply.model_spec.version.value == int(y)
    return int(reply.model_spec.version.value)


def v2_rest(server: Server, user: str | None = None) -> int:
    headers = {"X-User": user} if user else {}
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 1.0]}
    reply = server.rest.post("/v2/models/m/infer", json={"inputs": [tensor]}, headers=headers)
    found = reply.json()
    assert int(found["model_version"]) == found["outputs"][0]["data"][0]
    return int(found["model_version"])


def v2_grpc(server: Server, user: str | None = None) -> int:
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        tensor = tritonclient.grpc.InferInput("x", [1, 2], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 2), np.float32))
        headers = {"x-user": user} if user else None
        reply = client.infer("m", [tensor], headers=headers)
        return int(reply.as_numpy("y")[0, 0])


INTERFACES = [tfs_rest, tfs_grpc, v2_rest, v2_grpc]
Ask = Callable[..., int]


def test_every_interface_splits_and_keeps_users_on_their_version(serve: Serve, base: Path) -> None:
    server = serving(serve, base, traffic={"stable": 80, "canary": 20}, sticky="X-User")
    for ask in INTERFACES:
        found = Counter(ask(server) for _ in range(50))
        assert abs(found[2] - 10) <= 2, ask
    told = server.rest.get("/v1/models/m").json()["model_version_status"]
    said = {each["version"]: each["status"]["error_message"] for each in told}
    assert said == {n: f"it answers {s}% of the split traffic" for n, s in (("1", 80), ("2", 20))}
    users = [f"user-{n}" for n in range(60)]
    of_each = {user: tfs_rest(server, user) for user in users}
    assert 2 <= Counter(of_each.values())[2] <= 24
    for ask in INTERFACES:
        assert {user: ask(server, user) for user in users} == of_each, ask
    # A larger share keeps the users that the version had.
    configure(base, traffic={"stable": 50, "canary": 50}, sticky="x-user")
    until(lambda: server.sample('ie_serving_traffic_share{model_name="m",version="2"}') == 0.5)
    after = {user: tfs_grpc(server, user) for user in users}
    assert {user for user in users if of_each[user] == 2} < {u for u in users if after[u] == 2}


def test_requests_of_examples_are_split_alike(serve: Serve, tmp_path: Path) -> None:
    base = tmp_path / "m"
    base.mkdir()
    for version in (1, 2):
        write(base, version, regress=True)
    server = serving(serve, base, traffic={"stable": 60, "canary": 40}, sticky="x-user")
    features = tf.train.Features(
        feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))}
    )
    one = tf.train.Example(features=features)
    regress, multi = regression_pb2.RegressionRequest(), inference_pb2.MultiInferenceRequest()
    for spec in (regress.model_spec, multi.tasks.add().model_spec):
        spec.name, spec.signature_name = "m", "r"
    multi.tasks[0].method_name = "tensorflow/serving/regress"
    for asked in (regress, multi):
        asked.input.example_list.examples.append(one)
    found = Counter[int]()
    for n in range(30):
        user = f"user-{n}"
        key = [("x-user", user)]
        reply = server.prediction.Regress(regress, timeout=PATIENCE_S, metadata=key)
        version = int(reply.result.regressions[0].value)
        assert version == reply.model_spec.version.value
        many = server.prediction.MultiInference(multi, timeout=PATIENCE_S, metadata=key)
        assert many.results[0].model_spec.version.value == version
        body = {"signature_name": "r", "examples": [{"x": 1.0}]}
        told = server.rest.post("/v1/models/m:regress", json=body, headers={"X-User": user})
        assert told.json()["results"] == [float(version)]
        found[version] += 1
    assert set(found) == {1, 2}
    values = [server.prediction.Regress(regress, timeout=PATIENCE_S) for _ in range(20)]
    assert {each.model_spec.version.value for each in values} == {1, 2}


def test_models_on_demand_and_every_worker_split_alike(serve: Serve, base: Path) -> None:
    # Version 1 stays beside the latest, since `traffic` names it by number.
    shares = {"version_labels": {}, "traffic": {"1": 50, "2": 50}, "sticky": "x-user"}
    file = configure(base, load="on_demand", **shares)
    server = serve("ie_serving", "config", f"--config_path={file}", "--workers=2", *FLAGS)
    users = [f"user-{n}" for n in range(20)]
    of_each = {user: tfs_rest(server, user) for user in users}
    assert set(of_each.values()) == {1, 2}
    assert {user: v2_grpc(server, user) for user in users} == of_each
    for _ in range(16):  # over connections of their own, so that each worker has loaded it
        httpx.post(
            f"{server.url}/v1/models/m:predict", json={"inputs": {"x": [[1.0, 1.0]]}}, verify=PLAIN
        )
    assert server.sample('ie_serving_traffic_share{model_name="m",version="1"}') == 0.5


def test_the_wait_for_a_load_on_demand_is_no_latency_of_a_version(base: Path, gate: Gate) -> None:
    for version in (1, 2):  # whose loads take longer than `latency_ms`
        (base / str(version) / "slow").write_text(gate.path)
    shares = {"version_labels": {}, "traffic": {"1": 50, "2": 50}}
    rollback = {"latency_ms": 500, "min_requests": 1}
    file = configure(base, load="on_demand", rollback=rollback, **shares)
    command = (sys.executable, str(GATED), "config", f"--config_path={file}", *FLAGS)
    with Server(*command) as server, ThreadPoolExecutor(8) as pool:
        server.ready()
        answers = [pool.submit(tfs_rest, server) for _ in range(8)]
        assert wait(answers, 0.6).done == set()
        gate.open(2)
        assert {each.result() for each in answers} == {1, 2}
        assert {tfs_rest(server) for _ in range(8)} == {1, 2}
        assert "version rolled back" not in server.log


def test_a_request_that_names_version_or_label_is_not_split(serve: Serve, base: Path) -> None:
    server = serving(serve, base, traffic={"1": 100, "2": 0})
    body = {"inputs": {"x": [[1.0, 1.0]]}}
    for path in ("versions/2", "labels/canary"):
        reply = server.rest.post(f"/v1/models/m/{path}:predict", json=body)
        assert reply.json()["outputs"] == [[2.0, 2.0]]
    assert {tfs_rest(server) for _ in range(20)} == {1}
    described = server.rest.get("/v1/models/m/metadata").json()
    assert described["modelSpec"]["version"] == "1"


def test_a_version_that_is_not_there_is_said(serve: Serve, base: Path) -> None:
    server = serving(serve, base, traffic={"1": 50, "9": 30, "10": 20, "11": 0})
    said = "traffic names the versions 9 and 10, which are not there: others answer their 50 %"
    said += "; upload them, or correct traffic"
    assert "traffic names versions that are not there model=m versions=9,10" in server.log
    details = "/v1/models/m/details"
    until(lambda: said in server.rest.get(details).json()["settings_not_applied"])
    assert said in server.rest.get("/page/state").json()["models"][0]["not_applied"]
    write(base, 9)
    said = "traffic names the version 10, which is not there: others answer its 20 %"
    said += "; upload it, or correct traffic"
    until(lambda: server.rest.get(details).json()["settings_not_applied"] == said)
    write(base, 10)
    until(lambda: server.rest.get(details).json()["settings_not_applied"] == "")
    assert server.log.count("traffic names versions that are not there") == 2
    configure(base, traffic={"12": 100})
    said = "traffic names the version 12, which is not there: no version answers its 100 %"
    until(lambda: server.rest.get(details).json()["settings_not_applied"].startswith(said))
    assert server.rest.post("/v1/models/m:predict", json={"inputs": {}}).status_code == 404


def test_a_label_whose_version_is_not_there_is_said(serve: Serve, base: Path) -> None:
    server = serving(serve, base, traffic={"stable": 100}, version_labels={"stable": 9, "x": 1})
    said = "traffic names the version 9, which is not there: no version answers its 100 %"
    details = "/v1/models/m/details"
    until(lambda: said in server.rest.get(details).json()["settings_not_applied"])


def test_a_label_that_is_removed_is_said(serve: Serve, base: Path) -> None:
    server = serving(serve, base, traffic={"stable": 60, "canary": 40})
    assert {tfs_rest(server) for _ in range(10)} == {1, 2}
    reply = server.rest.post("/v1/models/m:labels", json={"labels": {"canary": None}})
    said = "traffic names the label canary, which is not assigned: others answer its 40 %"
    assert reply.json()["settings_not_applied"] == f"{said}; assign it, or correct traffic"
    assert {tfs_rest(server) for _ in range(10)} == {1}


def test_traffic_begins_and_ends_with_the_file(serve: Serve, base: Path) -> None:
    server = serving(serve, base)
    assert {tfs_rest(server) for _ in range(10)} == {2}
    configure(base, traffic={"stable": 50, "canary": 50})
    until(lambda: {tfs_rest(server) for _ in range(10)} == {1, 2})
    configure(base)
    until(lambda: {tfs_rest(server) for _ in range(10)} == {2})
    assert "model configured" not in server.log.partition("configuration applied")[2]


def test_a_bad_canary_under_load_is_rolled_back_by_itself(serve: Serve, base: Path) -> None:
    # Version 3 takes no input "x", so that each request to it fails.
    write(base, 3, "z")
    labels = {"stable": 1, "canary": 3}
    keys = {"version_labels": labels, "rollback": {"error_rate": 0.1, "min_requests": 10}}
    server = serving(serve, base, traffic={"stable": 95, "canary": 5}, **keys)
    results: Counter[int] = Counter()
    lock, enough = threading.Lock(), threading.Event()
    rolled_back = 'ie_serving_traffic_rollbacks_total{model_name="m",version="3"}'

    def ask(_: int) -> None:
        with httpx.Client(
            base_url=server.url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN
        ) as client:
            while not enough.is_set():
                body = {"inputs": {"x": [[1.0, 1.0]]}}
                status = client.post("/v1/models/m:predict", json=body).status_code
                with lock:
                    results[status] += 1

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, n) for n in range(4)]
        try:
            until(lambda: server.sample(rolled_back) == 1)
            at_once = results.total()
            until(lambda: results.total() > at_once + 200)
        finally:
            enough.set()
        for each in asked:
            each.result()
    assert set(results) == {200, 400}
    # Ten decide; those under way beside them may fail as well, and not one of those that follow.
    assert 10 <= results[400] <= 10 + 4
    assert results[400] <= 0.05 * results.total() + 4
    assert server.sample('ie_serving_traffic_share{model_name="m",version="3"}') == 0
    assert server.sample('ie_serving_traffic_share{model_name="m",version="1"}') == 1
    status = server.status("m")[0]
    assert (status.version, status.state, status.status.error_code) == (3, 30, 0)
    assert "its share of the traffic went to version 1: 10 of 10" in status.status.error_message
    assert server.log.count("version rolled back") == 1
    # It still answers those who name it: nothing else has changed.
    reply = server.rest.post("/v1/models/m/versions/3:predict", json={"inputs": {"z": [[1, 1]]}})
    assert reply.json()["outputs"] == [[3.0, 3.0]]
    # Another traffic gives the share back.
    configure(base, traffic={"stable": 94, "canary": 6}, **keys)
    until(lambda: server.sample('ie_serving_traffic_share{model_name="m",version="3"}') == 0.06)
    assert server.sample(rolled_back) == 1


def test_contradictions_are_refused(serve: Serve, base: Path) -> None:
    server = serving(serve, base, traffic={"stable": 100})
    for keys, said in (
        ({"traffic": {"stable": 90, "canary": 5}}, "the shares sum to 95; expected 100"),
        ({"traffic": {"stable": 90, "cannary": 10}}, 'no label \\"cannary\\"'),
        ({"sticky": "x-user"}, "beside traffic alone"),
        (
            {"traffic": {"stable": 100}, "sticky": "x:user"},
            "the name of a header or key of metadata",
        ),
        ({"traffic": {"stable": 100}, "sticky": "X-User-Bin"}, 'without \\"-bin\\" at its end'),
        ({"traffic": {"1": 100}, "rollback": {"min_requests": 3}}, "error_rate or latency_ms"),
        ({"traffic": {"1": 100}, "rollback": {"error_rate": 1}}, "from 0 to below 1"),
        ({"traffic": {"1": 100}, "rollback": {"latency_ms": 0}}, "milliseconds above 0"),
        (
            {"traffic": {"1": 100}, "rollback": {"error_rate": 0.1, "min_requests": 10_001}},
            "rollback.min_requests",
        ),
        ({"traffic": {"9" * 5000: 100}}, "version_labels"),
    ):
        configure(base, **keys)
        until(lambda said=said: said in server.log)
    assert {tfs_grpc(server) for _ in range(10)} == {1}
