"""Shadows: copies are answered and compared beside the requests, which learn nothing of it."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.functional.conftest import Serve
from tests.functional.servers import Server, config_flag
from tests.functional.test_canary import (
    FLAGS,
    INTERFACES,
    LABELS,
    tfs_grpc,
    tfs_rest,
    write,
)
from tests.process import until as until_within

until = partial(until_within, patience_s=180.0)
"""A comparison pauses for 999 times as long as the last one took."""
TRAFFIC = {"stable": 100}
CANARY = {"label": "canary", "sampling_rate": 1}

ODD = """
import time
import numpy as np


class Odd:
    def metadata(self):
        tensor = {"dtype": "float32", "shape": [-1, 2]}
        return {"inputs": {"x": tensor}, "outputs": {"y": tensor}}

    def execute(self, inputs, ctx):
        if inputs["x"][0, 0] == 7:
            raise ValueError("as it is")
        if inputs["x"][0, 0] == 9:
            time.sleep(3600)
        if inputs["x"][0, 0] == 5:
            end = time.monotonic() + 1
            while time.monotonic() < end:
                pass
        return {"y": inputs["x"]}
"""


def configure(base: Path, *others: dict[str, Any], **keys: object) -> str:
    entry = {"name": "m", "base_path": str(base), "version_labels": LABELS, "traffic": TRAFFIC}
    entry |= {"model_version_policy": {"all": {}}, **keys}
    beside = base.parent / "new.json"
    config_flag(beside, entry, *others)
    beside.rename(base.parent / "config.json")
    return str(base.parent / "config.json")


def serving(serve: Serve, file: str, *flags: str) -> Server:
    server = serve("ie_serving", "config", f"--config_path={file}", *FLAGS, *flags)
    until(lambda: states(server).count("AVAILABLE") == 2)
    return server


def states(server: Server) -> list[str]:
    found = server.rest.get("/v1/models/m").json()["model_version_status"]
    return [each["state"] for each in found]


def shadowed(server: Server, result: str, model: str = "m") -> int:
    labels = f'model_name="{model}",result="{result}"'
    return int(server.sample(f"ie_serving_shadow_requests_total{{{labels}}}"))


def compared(server: Server, result: str, number: int, ask: Callable[[Server], Any]) -> None:
    """Ask until so many copies have that result."""

    def done() -> bool:
        assert ask(server)
        return shadowed(server, result) >= number

    until(done)


def said_of(server: Server, version: int) -> str:
    found = server.rest.get(f"/v1/models/m/versions/{version}").json()["model_version_status"]
    return str(found[0]["status"]["error_message"])


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "m").mkdir()
    write(tmp_path / "m", 1)
    write(tmp_path / "m", 2)
    return tmp_path / "m"


def logs(folder: Path, kind: str) -> list[prediction_log_pb2.PredictionLog]:
    """Read all records of one kind as TensorFlow does."""
    files = sorted(folder.glob(f"m-{kind}-*.tfrecord"))
    records = (each.numpy() for file in files for each in tf.data.TFRecordDataset(str(file)))
    return [prediction_log_pb2.PredictionLog.FromString(each) for each in records]


def test_differences_over_every_interface_are_counted_and_kept_with_both_answers(
    serve: Serve, base: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    rule = {**CANARY, "path": str(kept / "m"), "max_samples": 3}
    file = configure(base, shadow=rule)
    server = serving(serve, file)
    for number, ask in enumerate(INTERFACES, 1):
        assert ask(server) == 1
        until(lambda number=number: shadowed(server, "different") == number)
    until(lambda: len(logs(kept, "answers")) == len(logs(kept, "shadows")) == 3)
    for answer, shadow in zip(logs(kept, "answers"), logs(kept, "shadows"), strict=True):
        for log, version in ((answer, 1), (shadow, 2)):
            assert log.log_metadata.model_spec.version.value == version
            asked = tf.make_ndarray(log.predict_log.request.inputs["x"])
            found = tf.make_ndarray(log.predict_log.response.outputs["y"])
            np.testing.assert_array_equal(asked, [[1.0, 1.0]])
            np.testing.assert_array_equal(found, [[version, version]])
    assert server.log.count("shadow answers otherwise model=m shadow=m version=2 outputs=y") == 1
    assert said_of(server, 2) == (
        "shadow of m: 4 of 4 answers differ, 0 failed, 0 were not compared"
    )
    assert not said_of(server, 1)
    server.close()
    again = serving(serve, file)
    compared(again, "different", 1, tfs_rest)
    again.close()
    assert len(logs(kept, "answers")) == 3  # those of the first start count


def test_a_shadow_is_no_client_of_its_version(serve: Serve, base: Path, tmp_path: Path) -> None:
    recorded = {
        "log_collector_config": {"type": "tfrecord", "filename_prefix": str(tmp_path / "log")},
        "sampling_config": {"sampling_rate": 1},
    }
    keys = {"rollback": {"error_rate": 0.0, "min_requests": 1}, "response_cache_bytes": 1 << 20}
    file = configure(base, shadow=CANARY, logging_config=recorded, **keys)
    server = serving(serve, file)
    for _ in range(3):
        assert tfs_grpc(server) == 1
    until(lambda: shadowed(server, "different") >= 1)
    page = server.rest.get("/metrics").text
    assert 'ie_serving_requests_recorded_total{model_name="m"} 3' in page
    assert 'ie_serving_response_cache_misses_total{model_name="m"} 1' in page
    assert 'ie_serving_response_cache_hits_total{model_name="m"} 2' in page
    counted = {
        version: [
            line
            for line in page.splitlines()
            if f'version="{version}"' in line
            and "load" not in line
            and ("_count{" in line or "_total{" in line)
            and not line.endswith(" 0")
        ]
        for version in (1, 2)
    }
    assert any('stage="inference"' in line for line in counted[1])
    assert not counted[2]


def test_answers_within_the_tolerance_are_the_same(serve: Serve, base: Path) -> None:
    server = serving(serve, configure(base, shadow={**CANARY, "tolerance": 1.0}))
    compared(server, "same", 1, tfs_rest)
    configure(base, shadow={**CANARY, "tolerance": 0.4})
    compared(server, "different", 1, tfs_rest)
    assert shadowed(server, "same") >= 1
    assert "model configured" not in server.log.partition("configuration applied")[2]


@pytest.mark.parametrize(
    ("shadow", "result", "cause"),
    [
        ({"version": 3}, "failed", "input size does not match signature"),
        ({"version": 4}, "unavailable", "Specific(m, 4)"),
        ({"model": "odd"}, "failed", "as it is"),
    ],
    ids=["another signature", "not loaded", "raises"],
)
def test_a_shadow_that_cannot_answer_fails_no_request(
    serve: Serve, base: Path, shadow: dict[str, Any], result: str, cause: str
) -> None:
    write(base, 3, "z")
    (base.parent / "odd" / "1").mkdir(parents=True)
    (base.parent / "odd" / "1" / "kernel.py").write_text(ODD)
    odd = {"name": "odd", "base_path": str(base.parent / "odd"), "kernel": "kernel.py"}
    rule = {**shadow, "sampling_rate": 1}
    file = configure(base, odd, shadow=rule, model_version_policy={"latest": {"num_versions": 1}})
    server = serve("ie_serving", "config", f"--config_path={file}", "--allow_python", *FLAGS)
    until(lambda: "AVAILABLE" in states(server))
    compared(server, result, 1, sevens)
    assert server.log.count("shadow gives no answer model=m") == 1
    assert cause in server.log
    assert shadowed(server, "same") == shadowed(server, "different") == 0


def sevens(server: Server, value: float = 7.0) -> bool:
    """Ask for what the odd model raises at, over REST."""
    body = {"inputs": {"x": [[value, 1.0]]}}
    return bool(server.rest.post("/v1/models/m:predict", json=body).json()["outputs"])


def test_a_shadow_that_hangs_delays_no_request_and_what_waits_is_bounded(
    serve: Serve, base: Path
) -> None:
    (base.parent / "odd" / "1").mkdir(parents=True)
    (base.parent / "odd" / "1" / "kernel.py").write_text(ODD)
    odd = {"name": "odd", "base_path": str(base.parent / "odd"), "kernel": "kernel.py"}
    file = configure(base, odd, shadow={"model": "odd", "sampling_rate": 1})
    server = serving(serve, file, "--allow_python")
    for _ in range(200):
        assert sevens(server, 9.0)
    # One hangs and 15 wait; all others are dropped at once.
    assert shadowed(server, "shed") == 200 - 16
    until(lambda: shadowed(server, "failed") == 1)
    assert "it took longer than 10 s" in server.log
    assert sevens(server, 1.0)


def test_a_slow_shadow_runs_too_seldom_for_the_99th_percentile(serve: Serve, base: Path) -> None:
    (base.parent / "odd" / "1").mkdir(parents=True)
    (base.parent / "odd" / "1" / "kernel.py").write_text(ODD)
    odd = {"name": "odd", "base_path": str(base.parent / "odd"), "kernel": "kernel.py"}
    file = configure(base, odd, shadow={"model": "odd", "sampling_rate": 1})
    server = serving(serve, file, "--allow_python")
    compared(server, "same", 2, lambda server: sevens(server, 5.0))
    for _ in range(300):
        assert sevens(server, 5.0)
    # The second takes 1 s of the interpreter, so that it pauses for 10 min.
    assert shadowed(server, "same") == 2


def test_the_shadow_follows_the_configuration_and_labels_without_a_load(
    serve: Serve, base: Path
) -> None:
    write(base, 3)
    server = serve("ie_serving", "config", f"--config_path={configure(base)}", *FLAGS)
    until(lambda: states(server).count("AVAILABLE") == 3)
    for _ in range(20):
        assert tfs_rest(server) == 1
    assert "ie_serving_shadow_requests_total{" not in server.rest.get("/metrics").text
    configure(base, shadow={"version": 3, "sampling_rate": 1})
    until(lambda: bool(tfs_rest(server)) and "shadow of m" in said_of(server, 3))
    configure(base, shadow=CANARY)
    until(lambda: bool(tfs_rest(server)) and "shadow of m" in said_of(server, 2))
    assert not said_of(server, 3)
    configure(base, shadow=CANARY, version_labels={"stable": 1, "canary": 3})
    until(lambda: bool(tfs_rest(server)) and "shadow of m" in said_of(server, 3))
    # Requests that the shadow itself answers are not copied: its answers would be the same.
    configure(base, shadow={**CANARY, "tolerance": 0}, version_labels={"stable": 1, "canary": 3})
    until(lambda: not said_of(server, 3))
    for _ in range(5):
        body = {"inputs": {"x": [[1.0, 1.0]]}}
        server.rest.post("/v1/models/m/labels/canary:predict", json=body).raise_for_status()
    compared(server, "different", shadowed(server, "different") + 1, tfs_rest)
    assert shadowed(server, "same") == 0
    configure(base)
    until(lambda: not said_of(server, 3))
    ended = server.rest.get("/metrics").text.count("ie_serving_shadow_requests_total{")
    assert ended
    assert "model configured" not in server.log.partition("configuration applied")[2]


def test_a_version_that_is_a_shadow_by_its_number_stays_loaded(serve: Serve, base: Path) -> None:
    keys = {"traffic": {}, "version_labels": {}}
    latest = {"model_version_policy": {"latest": {"num_versions": 1}}}
    shadow = {"version": 1, "sampling_rate": 1}
    server = serving(serve, configure(base, shadow=shadow, **keys, **latest))
    assert tfs_rest(server) == 2
    until(lambda: shadowed(server, "different") == 1)
    configure(base, **keys, **latest)
    until(lambda: states(server).count("AVAILABLE") == 1)
    configure(base, shadow=shadow, **keys, **latest)
    until(lambda: states(server).count("AVAILABLE") == 2)


WORDS = """
import numpy as np


class Words:
    def load(self, ctx):
        self.loud = ctx.params["loud"]

    def metadata(self):
        tensor = {"dtype": "string", "shape": [-1]}
        return {"inputs": {"x": tensor}, "outputs": {"y": tensor}}

    def execute(self, inputs, ctx):
        x = inputs["x"]
        return {"y": np.array([each.upper() for each in x], object) if self.loud else x}
"""


def test_strings_are_compared_and_kept(serve: Serve, tmp_path: Path) -> None:
    models: list[dict[str, Any]] = []
    for name, loud in (("m", False), ("loud", True)):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "kernel.py").write_text(WORDS)
        place = {"name": name, "base_path": str(tmp_path / name), "kernel": "kernel.py"}
        models.append({**place, "params": {"loud": loud}})
    models[0]["shadow"] = {"model": "loud", "sampling_rate": 1, "path": str(tmp_path / "m")}
    entries = [{"config": each} for each in models]
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": entries}))
    file = f"--config_path={tmp_path / 'config.json'}"
    server = serve("ie_serving", "config", file, "--allow_python", *FLAGS)
    for number, (word, result) in enumerate((("A", "same"), ("a", "different"))):
        body = {"inputs": {"x": [word, "B"]}}
        reply = server.rest.post("/v1/models/m:predict", json=body)
        assert reply.json()["outputs"] == [word, "B"]
        until(lambda result=result: shadowed(server, result) == 1)
        until(lambda number=number: len(logs(tmp_path, "shadows")) == number)
    (answer,), (shadow,) = logs(tmp_path, "answers"), logs(tmp_path, "shadows")
    assert answer.predict_log.response.outputs["y"].string_val == [b"a", b"B"]
    assert shadow.predict_log.response.outputs["y"].string_val == [b"A", b"B"]
    assert shadow.log_metadata.model_spec.name == "loud"


def test_models_on_demand_have_shadows_in_several_workers(serve: Serve, base: Path) -> None:
    file = configure(base, shadow=CANARY, load="on_demand")
    server = serve("ie_serving", "config", f"--config_path={file}", "--workers=2", *FLAGS)
    compared(server, "different", 1, tfs_grpc)


def test_contradictions_are_refused(serve: Serve, base: Path) -> None:
    server = serving(serve, configure(base))
    state = {"stateful": True, "traffic": {}}
    for keys, said in (
        ({"shadow": {"label": "cannary", "sampling_rate": 1}}, 'no label \\"cannary\\"'),
        ({"shadow": {"model": "m", "sampling_rate": 1}}, "it is this model itself"),
        ({"shadow": {"label": "canary"}}, "an object with sampling_rate"),
        ({"shadow": {**CANARY, "version": 2}}, "an object with sampling_rate"),
        ({"shadow": {**CANARY, "path": "here"}}, "an absolute path"),
        ({"shadow": {**CANARY, "max_samples": 3}}, "path beside it"),
        ({"shadow": {**CANARY, "tolerance": -1}}, "a number from 0 to 1"),
        ({"shadow": CANARY, **state}, "a stateful model's answers depend on its state"),
        ({"shadow": {"model": "typo", "sampling_rate": 1}}, "model typo is not configured"),
        ({"pinned": True}, "has no effect; leave it out"),
        ({"load": "on_demand", **state}, "to unload it would lose its sequences"),
    ):
        configure(base, **keys)
        until(lambda said=said: said in server.log)
        details = server.rest.get("/v1/models/m/details").json()
        assert said.replace("\\", "") in details["configuration_not_applied"]
    assert tfs_grpc(server) == 1
    assert server.log.count("configuration applied") == 0
