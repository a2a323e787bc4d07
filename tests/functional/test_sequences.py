"""Models that keep state: sequences of requests over both interfaces, each with its own."""

import json
import queue
import shutil
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
import tritonclient.grpc as triton
from google.protobuf.json_format import MessageToDict
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2
from tritonclient.utils import InferenceServerException

from ie_serving.core.values.tensors import Array
from tests.functional.asking import predict_request
from tests.functional.servers import Server, config_flag, rpc_refused
from tests.functional.test_counted import SCRIPT, SHORT_S, Line, reset_at_close
from tests.process import PATIENCE_S, until
from tests.unit.engines.openvino.stateful_models import (
    INPUTS,
    Direct,
    accumulator,
    lstm,
    slow_accumulator,
)

NONE, START, END = 0, 1, 2
INTERFACES = pytest.mark.parametrize("interface", ["gRPC", "REST"])
ONES = np.ones((1, 2), np.float32)
COUNT = 80
"""Sequences at the same time."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    accumulator(root / "sum" / "1")
    accumulator(root / "few" / "1")
    accumulator(root / "versions" / "1")
    slow_accumulator(root / "slow" / "1")
    lstm(root / "lstm" / "1")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    own: dict[str, dict[str, object]] = {
        "few": {"max_sequence_number": 2},
        "versions": {"model_version_policy": {"latest": {"num_versions": 2}}},
        "lstm": {"inference_precision": "f32", "execution": "async"},
        "slow": {"execution": "async"},
    }
    entries = [
        {"name": name, "base_path": name, "stateful": True} | own.get(name, {})
        for name in ("sum", "few", "versions", "lstm", "slow")
    ]
    entries.append({"name": "plain", "base_path": "sum"})
    file = config_flag(root / "config.json", *entries)
    flags = ("--file_system_poll_wait_seconds=0.2", file)
    (root / "lock").touch()
    env = {"INFERENCES_WAIT_FOR": str(root / "lock")}
    with Server(sys.executable, str(SCRIPT), "config", *flags, env=env) as started:
        yield started.ready()


class Refused(Exception):
    """An error of either interface: its canonical code, and its text."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def message(
    model: str, number: int, control: int = NONE, x: Array = ONES, version: int = 0
) -> predict_pb2.PredictRequest:
    request = predict_request(model, "", version or None, x=x)
    if number:
        request.inputs["sequence_id"].CopyFrom(tf.make_tensor_proto([number], tf.uint64))
    if control:
        tensor = tf.make_tensor_proto([control], tf.uint32)
        request.inputs["sequence_control_input"].CopyFrom(tensor)
    return request


class Client:
    """Asks one model over one interface.

    Attributes:
        version: of the last reply over gRPC.
    """

    def __init__(self, server: Server, model: str, interface: str) -> None:
        self._server = server
        self._model = model
        self.ask = self._grpc if interface == "gRPC" else self._rest
        self.version = 0

    def _grpc(self, number: int, control: int, x: Array = ONES, version: int = 0) -> Array:
        request = message(self._model, number, control, x, version)
        try:
            reply = self._server.prediction.Predict(request, timeout=PATIENCE_S)
        except grpc.RpcError as error:
            raise Refused(error.code().name, str(error.details())) from error
        self.version = reply.model_spec.version.value
        # As the clients of OpenVINO Model Server read it.
        self.number = reply.outputs["sequence_id"].uint64_val[0]
        assert reply.outputs["sequence_id"].tensor_shape.dim[0].size == 1
        return tf.make_ndarray(reply.outputs["y"])

    def _rest(self, number: int, control: int, x: Array = ONES, version: int = 0) -> Array:
        inputs: dict[str, object] = {"x": x.tolist()}
        if number:
            inputs["sequence_id"] = [number]
        if control:
            inputs["sequence_control_input"] = [control]
        of_version = f"/versions/{version}" if version else ""
        path = f"/v1/models/{self._model}{of_version}:predict"
        reply = self._server.rest.post(path, json={"inputs": inputs})
        if reply.status_code != 200:
            raise Refused(CODES[reply.status_code], reply.json()["error"])
        found = reply.json()["outputs"]
        (self.number,) = found["sequence_id"]
        return np.array(found["y"], np.float32)


def refusal(client: Client, number: int, control: int, **given: Any) -> tuple[str, str]:
    with pytest.raises(Refused) as error:
        client.ask(number, control, **given)
    return error.value.code, str(error.value)


@INTERFACES
def test_sequences_are_what_openvino_computes(server: Server, root: Path, interface: str) -> None:
    """`COUNT` of them, interleaved, from several threads."""
    direct = Direct(root / "lstm" / "1")
    random = np.random.default_rng(3)
    steps = [random.standard_normal((COUNT, 1, INPUTS)).astype(np.float32) for _ in range(4)]
    sequences = [direct.sequence() for _ in range(COUNT)]
    controls = [START, NONE, NONE, END]
    with ThreadPoolExecutor(8) as threads:
        for control, inputs in zip(controls, steps, strict=True):

            def ask(i: int, control: int = control, inputs: Array = inputs) -> Array:
                client = Client(server, "lstm", interface)
                found = client.ask(1000 + i, control, inputs[i])
                assert client.number == 1000 + i
                return found

            for i, found in enumerate(threads.map(ask, range(COUNT))):
                expected = sequences[i]({"x": inputs[i]})
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert server.samples("sequences", "lstm") == {"": 0.0}


@INTERFACES
def test_a_request_without_an_id_is_given_one(server: Server, interface: str) -> None:
    client = Client(server, "sum", interface)
    assert client.ask(0, START).tolist() == [[1.0, 1.0]]
    number = client.number
    assert number > 0
    assert client.ask(number, NONE).tolist() == [[2.0, 2.0]]
    assert client.number == number
    assert client.ask(number, END).tolist() == [[3.0, 3.0]]
    assert refusal(client, number, NONE)[0] == "NOT_FOUND"


def test_a_sequence_goes_on_over_either_interface(server: Server) -> None:
    over_grpc, over_rest = (Client(server, "sum", name) for name in ("gRPC", "REST"))
    largest = 2**64 - 1
    over_grpc.ask(largest, START)
    assert over_rest.ask(largest, NONE).tolist() == [[2.0, 2.0]]
    assert over_rest.number == largest
    assert over_grpc.ask(largest, END).tolist() == [[3.0, 3.0]]


@INTERFACES
def test_a_request_out_of_its_sequence_is_refused(server: Server, interface: str) -> None:
    client = Client(server, "few", interface)
    client.ask(1, START)
    client.ask(2, START)
    begins = {
        (1, START): ("ALREADY_EXISTS", "Sequence with provided ID already exists"),
        (3, START): ("UNAVAILABLE", "Max sequence number has been reached."),
        (3, NONE): ("NOT_FOUND", "Sequence with provided ID does not exist"),
        (3, END): ("NOT_FOUND", "Sequence with provided ID does not exist"),
        (0, NONE): ("INVALID_ARGUMENT", "Sequence ID has not been provided in request inputs"),
        (0, END): ("INVALID_ARGUMENT", "Sequence ID has not been provided in request inputs"),
        (1, 5): ("INVALID_ARGUMENT", "Unexpected value of sequence control input"),
    }
    for (number, control), (code, text) in begins.items():
        found = refusal(client, number, control)
        assert found[0] == code
        assert found[1].startswith(text)
    wrong = np.ones((1, 3), np.float32)
    assert refusal(client, 1, NONE, x=wrong)[0] == "INVALID_ARGUMENT"
    for number in (1, 2):
        assert client.ask(number, END).tolist() == [[2.0, 2.0]]


def test_parameters_of_the_open_inference_protocol(server: Server) -> None:
    """As Triton's client sends them, one by one and over its stream."""
    with closing(triton.InferenceServerClient(f"127.0.0.1:{server.port}")) as client:
        given = triton.InferInput("x", [1, 2], "FP32")
        given.set_data_from_numpy(ONES)

        def ask(number: int | str, **flags: bool) -> list[float]:
            reply = client.infer("sum", [given], sequence_id=number, **flags)
            return reply.as_numpy("y").ravel().tolist()

        assert ask(700, sequence_start=True) == [1, 1]
        assert ask(701, sequence_start=True) == [1, 1]
        assert ask("700") == [2, 2]
        assert ask(700, sequence_end=True) == [3, 3]
        with pytest.raises(InferenceServerException, match="NOT_FOUND"):
            ask(700)
        for _ in range(2):  # a sequence of one request, after which its id is free again
            assert ask(700, sequence_start=True, sequence_end=True) == [1, 1]
        with pytest.raises(InferenceServerException, match="NOT_FOUND"):
            ask(700)
        answers: queue.Queue[Any] = queue.Queue()
        client.start_stream(lambda result, error: answers.put(error or result.as_numpy("y")[0, 0]))
        for step in range(5):
            client.async_stream_infer("sum", [given], sequence_id=701, sequence_end=step == 4)
        assert [answers.get(timeout=PATIENCE_S) for _ in range(5)] == [2, 3, 4, 5, 6]
        client.stop_stream()


def test_controls_may_be_scalars_and_rows_over_rest(server: Server) -> None:
    def post(body: object) -> Any:
        reply = server.rest.post("/v1/models/sum:predict", json=body)
        return reply.json()

    scalars = {"x": [[1, 1]], "sequence_id": 7, "sequence_control_input": 1}
    assert post({"inputs": scalars}) == {"outputs": {"y": [[1.0, 1.0]], "sequence_id": [7]}}
    row = {"x": [1, 1], "sequence_id": 7, "sequence_control_input": 2}
    assert post({"instances": [row]}) == {"predictions": [{"y": [2.0, 2.0], "sequence_id": 7}]}
    assert "sequence_id" in post({"inputs": {**scalars, "sequence_id": [7, 8]}})["error"]
    for wrong in (-1, [1.5], 2**64):
        assert "uint64" in post({"inputs": {**scalars, "sequence_id": wrong}})["error"]


def test_metadata_shows_the_controls(server: Server) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "sum"
    reply = server.prediction.GetModelMetadata(request, timeout=PATIENCE_S)
    held = get_model_metadata_pb2.SignatureDefMap()
    reply.metadata["signature_def"].Unpack(held)
    shown = MessageToDict(held.signature_def["serving_default"])
    over_rest = server.rest.get("/v1/models/sum/metadata").json()
    signature = over_rest["metadata"]["signature_def"]["signatureDef"]["serving_default"]
    assert shown["inputs"] == signature["inputs"]
    forms = {name: (each["dtype"], each["tensorShape"]) for name, each in shown["inputs"].items()}
    assert forms["sequence_id"] == ("DT_UINT64", {"dim": [{"size": "1"}]})
    assert forms["sequence_control_input"] == ("DT_UINT32", {"dim": [{"size": "1"}]})
    assert shown["outputs"]["sequence_id"] == signature["outputs"]["sequence_id"]
    plain = server.rest.get("/v1/models/plain/metadata").text
    assert "sequence" not in plain


def test_without_stateful_each_request_begins_anew(server: Server) -> None:
    for _ in range(3):
        reply = server.rest.post("/v1/models/plain:predict", json={"inputs": {"x": [[1, 1]]}})
        assert reply.json() == {"outputs": [[1.0, 1.0]]}


def test_requests_that_are_sent_at_once_are_answered_in_order(server: Server) -> None:
    client = Client(server, "sum", "gRPC")
    client.ask(9, START, ONES * 0)
    made = message("sum", 9)
    calls = [server.prediction.Predict.future(made, timeout=PATIENCE_S) for _ in range(50)]
    sums = [tf.make_ndarray(call.result().outputs["y"])[0][0] for call in calls]
    assert sums == [float(i) for i in range(1, 51)]
    client.ask(9, END)


@pytest.mark.parametrize("way", ["deadline", "cancelled"])
def test_a_request_without_an_answer_has_moved_nothing(server: Server, way: str) -> None:
    """The model takes some tens of milliseconds: its clients are gone before."""
    client = Client(server, "slow", "gRPC")
    client.ask(5, START)
    if way == "deadline":
        with rpc_refused("DEADLINE_EXCEEDED"):
            server.prediction.Predict(message("slow", 5), timeout=0.005)
    else:
        behind = [server.prediction.Predict.future(message("slow", 5)) for _ in range(3)]
        behind[1].cancel()
        behind[2].cancel()
        assert tf.make_ndarray(behind[0].result().outputs["y"]).tolist() == [[2.0, 2.0]]
        client.ask(5, NONE, ONES * -1)
    assert client.ask(5, END).tolist() == [[2.0, 2.0]]


def test_a_request_whose_client_leaves_over_rest_has_moved_nothing(
    server: Server, root: Path
) -> None:
    """It leaves while the model infers, and while it waits for its turn."""
    over_rest, line = Client(server, "slow", "REST"), Line(server, root / "lock")
    over_rest.ask(8, START)
    in_flight = 'ie_serving_in_flight_requests{model_name="slow",version="1"}'
    with line.busy(), ExitStack() as connections:
        for number in (1, 2):
            connections.enter_context(left(server, {"x": ONES.tolist(), "sequence_id": [8]}))
            until(lambda number=number: line.number(in_flight) == number)  # type: ignore[misc]
        connections.close()
        until(lambda: line.number(in_flight) == 0)
    assert over_rest.ask(8, END).tolist() == [[2.0, 2.0]]


@pytest.fixture
def late(root: Path) -> Iterator[Line]:
    """A server that waits for no inference longer than a second."""
    (root / "lock").touch()
    entry = {"name": "slow", "base_path": "slow", "stateful": True, "execution": "async"}
    file = config_flag(root / "late.json", entry)
    limits = (f"--grpc_timeout_seconds={SHORT_S}", f"--rest_timeout_seconds={SHORT_S}")
    flags = (file, *limits, "--metrics_path=/metrics")
    env = {"INFERENCES_WAIT_FOR": str(root / "lock")}
    with Server(sys.executable, str(SCRIPT), "config", *flags, env=env) as started:
        yield Line(started.ready(), root / "lock")


@INTERFACES
def test_a_request_that_is_not_answered_in_time_has_moved_nothing(
    late: Line, interface: str
) -> None:
    """The time is over while the model infers, and while the request waits for its turn."""
    client = Client(late.server, "slow", interface)
    client.ask(5, START)
    with late.busy(), ThreadPoolExecutor() as threads:
        refused = [threads.submit(refusal, client, 5, NONE) for _ in range(2)]
        codes = [each.result(PATIENCE_S)[0] for each in refused]
    assert codes == ["DEADLINE_EXCEEDED"] * 2
    assert client.ask(5, NONE).tolist() == [[2.0, 2.0]]
    with late.busy():
        assert refusal(client, 5, END)[0] == "DEADLINE_EXCEEDED"
        assert refusal(client, 6, START)[0] == "DEADLINE_EXCEEDED"
    assert refusal(client, 6, NONE)[0] == "NOT_FOUND"
    assert client.ask(5, END).tolist() == [[3.0, 3.0]]


@contextmanager
def left(server: Server, inputs: dict[str, object]) -> Iterator[None]:
    """Send a request, and leave at the end of the block without having read a reply."""
    body = json.dumps({"inputs": inputs}).encode()
    head = (
        f"POST /v1/models/slow:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.rest_port), PATIENCE_S) as connection:
        connection.sendall(head.encode() + body)
        yield
        reset_at_close(connection)


def test_a_start_while_the_end_is_answered_is_told_so(server: Server) -> None:
    over_grpc, over_rest = (Client(server, "slow", name) for name in ("gRPC", "REST"))
    over_grpc.ask(6, START)
    controls = [NONE] * 8 + [END]
    sent = [server.prediction.Predict.future(message("slow", 6, each)) for each in controls]
    for client in (over_grpc, over_rest):
        code, text = refusal(client, 6, START)
        assert code == "FAILED_PRECONDITION"
        assert text.startswith("Sequence last request is being processed and it's not available")
    assert refusal(over_rest, 6, NONE)[0] == "NOT_FOUND"
    assert tf.make_ndarray(sent[-1].result(PATIENCE_S).outputs["y"]).tolist() == [[10.0, 10.0]]
    assert over_grpc.ask(6, START).tolist() == [[1.0, 1.0]]
    over_grpc.ask(6, END)


def golden(directory: Path, y: float) -> None:
    """Ask for a sequence with the id that a client has, and leave it open."""
    inputs = {"x": [[1, 1]], "sequence_id": [1], "sequence_control_input": [START]}
    response = {"outputs": {"y": [[y, y]], "sequence_id": [1]}}
    document = {"requests": [{"request": {"inputs": inputs}, "response": response}]}
    directory.mkdir(parents=True)
    (directory / "golden.json").write_text(json.dumps(document))


def test_a_sequence_stays_on_its_version_and_its_client_is_told(server: Server, root: Path) -> None:
    client = Client(server, "versions", "gRPC")
    over_rest = Client(server, "versions", "REST")
    client.ask(1, START)
    golden(root / "versions" / "2", 100)
    accumulator(root / "versions" / "2", step=100)
    server.line("version state changed model=versions version=2 state=AVAILABLE", PATIENCE_S)
    assert client.ask(1, NONE).tolist() == [[2.0, 2.0]]
    assert client.version == 1
    assert over_rest.ask(1, NONE).tolist() == [[3.0, 3.0]]
    assert client.ask(2, START).tolist() == [[100.0, 100.0]]
    assert client.version == 2
    code, text = refusal(client, 1, NONE, version=2)
    assert (code, "1 was started on version 1" in text) == ("NOT_FOUND", True)
    assert refusal(over_rest, 1, START)[0] == "ALREADY_EXISTS"
    golden(root / "versions" / "3", 1)
    accumulator(root / "versions" / "3")
    server.line("version state changed model=versions version=1 state=END", PATIENCE_S)
    for asked in (client, over_rest):
        # The log may be a moment ahead of what is known of the sequences.
        until(lambda asked=asked: "which had it" in refusal(asked, 1, NONE)[1])  # type: ignore[misc]
        code, text = refusal(asked, 1, NONE)
        assert code == "NOT_FOUND"
        assert "1, version 1, which had it, is unloaded: start a new one" in text
    assert client.ask(2, END).tolist() == [[200.0, 200.0]]
    assert server.samples("sequences_dropped_total", "versions")['reason="unloaded"'] == 1.0
    shutil.rmtree(root / "versions" / "1")
