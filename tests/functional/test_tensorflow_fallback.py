"""Signatures that TensorFlow runs in a process of its own, as clients and operators see them."""

import os
import pickle
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
import tensorflow as tf
from tensorflow_serving.apis import model_management_pb2

from tests.exporting import export
from tests.functional import fallback_exports
from tests.functional.asking import predict_request, predicted
from tests.functional.exports.answers import configuration
from tests.functional.servers import Server, rpc_refused
from tests.process import PATIENCE_S, ended

LARGE = 1 << 20
"""Numbers of 4 bytes in the tensors that pass through shared memory."""

START_S = 100.0
"""Bound of a start of TensorFlow, which takes 3 s on a quiet machine."""

MODELS = ("mixed", "keras")
TAKEN = {"count", "counted", "split", "every", "large", "wait", "shaped"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(fallback_exports.__file__, tmp_path_factory.mktemp("fallback"))


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    file = configuration(root, MODELS)
    with Server(
        "tensorflow_model_server", f"--model_config_file={file}", "--tensorflow_fallback"
    ) as server:
        yield server.ready(START_S)


def predict(
    server: Server, name: str, model: str = "mixed", timeout_s: float = PATIENCE_S, /, **inputs: Any
) -> dict[str, Any]:
    if "h" in inputs:
        inputs["h"] = tf.make_tensor_proto(inputs["h"], tf.bfloat16)
    return predicted(server, predict_request(model, name, **inputs), timeout_s)


def workers(server: Server) -> dict[str, int]:
    """Process ids of TensorFlow by model, as the log names them; the last one counts."""
    started = [line for line in server.lines if "model process started" in line]
    found = (re.search(r"path=\S*/(\w+)/1 pid=(\d+)", line) for line in started)
    return {match[1]: int(match[2]) for match in found if match}


def has_tensorflow(pid: int) -> bool:
    return "libtensorflow" in Path(f"/proc/{pid}/maps").read_text()


def test_each_signature_is_run_by_one_or_the_other(server: Server) -> None:
    taken = re.findall(r"signature taken over signature=(\w+)", server.log)
    assert set(taken) == {*TAKEN, "serving_default"}  # the last one is the Keras model's
    assert re.findall(r"model compiled signature=(\w+)", server.log) == ["serving_default"]


def test_tensorflow_is_in_its_own_processes_alone(server: Server) -> None:
    found = workers(server)
    assert set(found) == set(MODELS)
    assert all(map(has_tensorflow, found.values()))
    assert not any(map(has_tensorflow, server.pids()))


@pytest.mark.parametrize("name", fallback_exports.INPUTS)
def test_answers_equal_tensorflow_exactly(server: Server, root: Path, name: str) -> None:
    answer = predict(server, name, **fallback_exports.INPUTS[name])
    wanted = pickle.loads((root / "expected.pickle").read_bytes())[name]
    assert answer.keys() == wanted.keys()
    for alias, want in wanted.items():
        got = answer[alias]
        assert got.shape == np.shape(want), alias
        assert got.astype(np.asarray(want).dtype).tolist() == np.asarray(want).tolist(), alias


def test_dtypes_are_those_of_the_signature(server: Server) -> None:
    answer = predict(server, "every", **fallback_exports.INPUTS["every"])
    dtypes = {alias: str(array.dtype) for alias, array in answer.items()}
    numeric = {"d": "float64", "i": "int64", "h": "bfloat16"}
    assert dtypes == {**dict.fromkeys(("s", "none", "scalar"), "object"), **numeric}


def test_strings_over_rest(server: Server) -> None:
    body = {"signature_name": "split", "instances": ["ab", "ü"]}
    reply = server.rest.post("/v1/models/mixed:predict", json=body)
    assert reply.json() == {"predictions": [["a", "b"], ["ü", ""]]}


def test_a_counter_counts_and_its_reader_sees_that(server: Server) -> None:
    before = int(predict(server, "counted", n=np.int64(0))["total"])
    assert predict(server, "count", n=np.int64(2))["total"] == before + 2
    assert predict(server, "count", n=np.int64(3))["total"] == before + 5
    assert predict(server, "counted", n=np.int64(1))["total"] == before + 6


def answers_as_keras(server: Server, root: Path) -> None:
    """Over both interfaces."""
    x = fallback_exports.KerasWithin.rows
    right = pickle.loads((root / "keras.pickle").read_bytes())
    np.testing.assert_allclose(predict(server, "", "keras", x=x)["y"], right, rtol=1e-5)
    reply = server.rest.post("/v1/models/keras:predict", json={"instances": x.tolist()})
    np.testing.assert_allclose(reply.json()["predictions"], right, rtol=1e-5)


def test_a_keras_model_within_a_module_answers_as_tensorflow_does(
    server: Server, root: Path
) -> None:
    answers_as_keras(server, root)


def test_four_megabytes_pass_in_and_out(server: Server) -> None:
    for start in (0, 7):
        x = np.arange(start, start + LARGE, dtype=np.float32)
        answer = predict(server, "large", s=b"abc", x=x)
        assert np.array_equal(answer["y"], x + 3)


def test_a_refusal_of_tensorflow_is_invalid_with_its_words(server: Server) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        predict(server, "shaped", s=[b"a"], sizes=np.array([2], np.int32))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    said = "Input to reshape is a tensor with 1 values, but the requested shape has 2"
    assert said in caught.value.details()
    body = {"signature_name": "shaped", "inputs": {"s": ["a"], "sizes": [2]}}
    reply = server.rest.post("/v1/models/mixed:predict", json=body)
    assert (reply.status_code, said in reply.json()["error"]) == (400, True)


def test_a_deadline_ends_a_request_and_no_other(server: Server) -> None:
    with rpc_refused("DEADLINE_EXCEEDED"):
        predict(server, "wait", "mixed", 0.3, seconds=np.float64(3))
    assert predict(server, "wait", seconds=np.float64(0))["waited"]


def test_killed_under_load_it_costs_the_requests_that_it_ran(server: Server, root: Path) -> None:
    first = workers(server)["keras"]
    failures: list[grpc.StatusCode] = []
    served = threading.Semaphore(0)
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                predict(server, "", "keras", START_S, x=fallback_exports.KerasWithin.rows)
            except grpc.RpcError as error:
                failures.append(error.code())
            served.release()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        assert served.acquire(timeout=PATIENCE_S)
    os.kill(first, signal.SIGKILL)
    assert ended(first)
    server.line("model process started.*keras", START_S)
    stop.set()
    for thread in threads:
        thread.join(START_S)
    assert set(failures) <= {grpc.StatusCode.UNAVAILABLE}
    assert len(failures) <= len(threads)
    answers_as_keras(server, root)
    assert workers(server)["keras"] != first


def test_an_unloaded_version_leaves_no_process(server: Server, root: Path) -> None:
    pid = workers(server)["keras"]
    request = model_management_pb2.ReloadConfigRequest()
    config = request.config.model_config_list.config
    config.add(name="mixed", base_path=str(root / "mixed"), model_platform="tensorflow")
    server.model.HandleReloadConfigRequest(request, PATIENCE_S)
    assert ended(pid)
    assert psutil.pid_exists(workers(server)["mixed"])


def test_a_server_that_is_killed_leaves_no_process(server: Server) -> None:
    pid = workers(server)["mixed"]
    for each in server.pids():
        os.kill(each, signal.SIGKILL)
    assert ended(pid)


@pytest.mark.soak  # as test_stop.py has it of kernels; here it takes one more TensorFlow
def test_a_server_that_stops_leaves_neither_processes_nor_files(root: Path, tmp_path: Path) -> None:
    flags = (f"--model_name=keras --model_base_path={root / 'keras'} --tensorflow_fallback").split()
    with Server("tensorflow_model_server", *flags, env={"TMPDIR": str(tmp_path)}) as server:
        pid = workers(server.ready(START_S))["keras"]
        answers_as_keras(server, root)
        assert server.stop() == 0
    assert ended(pid)
    assert os.listdir(tmp_path) == []


def test_a_decision_forest_answers_as_tensorflow_does(tmp_path: Path) -> None:
    tfdf = pytest.importorskip(
        "tensorflow_decision_forests", reason="TF-DF has no release for this TensorFlow"
    )
    frame = pytest.importorskip("pandas").DataFrame(
        {"a": range(99), "y": [n > 40 for n in range(99)]}
    )
    forest = tfdf.keras.RandomForestModel(num_trees=3)
    forest.fit(tfdf.keras.pd_dataframe_to_tf_dataset(frame, label="y"))
    forest.save(str(tmp_path / "1"))
    library = next(Path(tfdf.__file__).parent.rglob("inference.so"))
    flags = (f"--model_name=f --model_base_path={tmp_path} --custom_op_paths={library}").split()
    with Server("tensorflow_model_server", *flags, "--tensorflow_fallback") as server:
        server.ready(START_S)
        reply = server.rest.post("/v1/models/f:predict", json={"inputs": {"a": [3, 90]}})
        right = forest.predict({"a": tf.constant([3, 90], tf.int64)})
        np.testing.assert_allclose(reply.json()["outputs"], right, rtol=1e-5)
