"""Requests that end before their answer is there stand in the metrics, by model and cause.

Those that have not begun by then cost no inference.
"""

import fcntl
import re
import shutil
import socket
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf

from tests.functional.servers import SAMPLE, Server, rpc_refused
from tests.functional.storage.serving import several
from tests.functional.test_digits import IMAGES, directly, over_grpc, over_rest
from tests.functional.test_transports import TRANSPORTS, predict
from tests.functional.tiny import Gate
from tests.process import PATIENCE_S, until

SCRIPT = Path(__file__).with_name("gated_server.py")
LIMIT_S = 3.0
SHORT_S = 1.0
BODY = b'{"instances": [[%s]]}' % b",".join([b"0"] * 64)
COUNT = re.compile(r'^:tensorflow:serving:request_count{model_name="(.*)",status="(.*)"} (\d+)$')


ROWS = 'ie_serving_batch_rows_sum{model_name="%s"}'


class Held:
    """A server of one model whose inferences wait at a gate that stays closed."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._begun = 0

    def begun(self) -> None:
        """Wait until the request that was sent is with the model."""
        until(lambda: self._with_the_model() > self._begun)

    def _with_the_model(self) -> int:
        return sum("request entrypoint=" in line for line in self.server.lines)

    def counted(self) -> Counter[tuple[str, str]]:
        """Requests by model name and status."""
        lines = self.server.rest.get("/metrics").text.splitlines()
        found = [each.groups() for each in map(COUNT.match, lines) if each]
        return Counter({(model, status): int(number) for model, status, number in found})

    def end_as(self, status: str, send: Callable[[], None], number: int = 1) -> None:
        """Send so many requests, each of which is to be counted once, under `status`."""
        before, self._begun = self.counted(), self._with_the_model()
        send()
        until(lambda: (self.counted() - before).total() >= number)
        assert self.counted() - before == Counter({("digits", status): number})


@pytest.fixture(scope="module", params=TRANSPORTS)
def held(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Held]:
    base = tmp_path_factory.mktemp("held")
    shutil.copytree(SAMPLE / "1", base / "digits" / "1")
    gate = Gate(base / "gate")
    (base / "digits" / "1" / "slow_answers").write_text(str(base / "gate"))
    command = (sys.executable, str(SCRIPT), "model", "--model_name=digits")
    flags = (
        f"--model_path={base / 'digits'}",
        f"--grpc_transport={request.param}",
        f"--grpc_timeout_seconds={LIMIT_S}",
        f"--rest_timeout_seconds={LIMIT_S}",
        "--metrics_path=/metrics",
        "--max_in_flight_requests=2",
        "--inference_precision=f32",  # no inference at the load, which would be held
        "--log_level=DEBUG",
    )
    with closing(gate), Server(*command, *flags) as server:
        yield Held(server.ready())


def call(held: Held, timeout_s: float) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as ended:
        held.server.prediction.Predict(predict(), timeout_s)
    code: grpc.StatusCode = ended.value.code()
    return code


def test_a_call_that_misses_its_deadline_is_counted_so(
    held: Held, request: pytest.FixtureRequest
) -> None:
    """The library of grpcio does not say why it cancels a call."""

    def ask() -> None:
        assert call(held, LIMIT_S / 2) is grpc.StatusCode.DEADLINE_EXCEEDED

    own = "http2" in request.node.name
    held.end_as("DEADLINE_EXCEEDED" if own else "CANCELLED", ask)


def test_a_request_that_takes_longer_than_the_server_allows_is_counted_so(held: Held) -> None:
    """One over each interface, at the same time."""

    def ask() -> None:
        future = held.server.prediction.Predict.future(predict(), PATIENCE_S)
        reply = held.server.rest.post("/v1/models/digits:predict", content=BODY)
        assert (reply.status_code, future.code()) == (504, grpc.StatusCode.DEADLINE_EXCEEDED)

    held.end_as("DEADLINE_EXCEEDED", ask, 2)


def test_a_call_whose_client_leaves_is_counted_as_cancelled(held: Held) -> None:
    def ask() -> None:
        future = held.server.prediction.Predict.future(predict(), PATIENCE_S)
        held.begun()
        future.cancel()

    held.end_as("CANCELLED", ask)


def test_one_request_more_than_may_be_in_flight(held: Held) -> None:
    """On both interfaces, while health and metrics are answered."""
    before, held._begun = held.counted(), held._with_the_model()
    calls = [held.server.prediction.Predict.future(predict(), PATIENCE_S) for _ in range(2)]
    until(lambda: held._with_the_model() >= held._begun + 2)
    assert call(held, PATIENCE_S) is grpc.StatusCode.RESOURCE_EXHAUSTED
    reply = held.server.rest.post("/v1/models/digits:predict", content=BODY)
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    assert "--max_in_flight_requests" in reply.json()["error"]
    assert held.server.rest.get("/v2/health/ready").status_code == 200
    assert (held.counted() - before) == Counter({("", "RESOURCE_EXHAUSTED"): 2})
    for each in calls:
        each.cancel()
    until(lambda: (held.counted() - before).total() == 4)


@pytest.mark.parametrize("sent", [BODY, BODY[:10]], ids=["all of it", "half of it"])
def test_a_rest_request_whose_client_leaves_is_counted_as_cancelled(
    held: Held, sent: bytes
) -> None:
    """Also one that leaves in the middle of a body that the application reads."""
    expects = "" if sent == BODY else "Expect: 100-continue\r\n"
    head = f"POST /v1/models/digits:predict HTTP/1.1\r\nHost: x\r\n{expects}"

    def ask() -> None:
        address = ("127.0.0.1", held.server.rest_port)
        with socket.create_connection(address, PATIENCE_S) as client:
            client.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode())
            if expects:
                assert client.recv(100).startswith(b"HTTP/1.1 100 ")
            client.sendall(sent)
            if not expects:
                held.begun()
            reset_at_close(client)

    held.end_as("CANCELLED", ask)


def reset_at_close(client: socket.socket) -> None:
    """Leave by a reset: the end of what a client sends, right behind a request, belongs to it."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Line:
    """A server whose one infer request for each model stays busy while the test wants it."""

    def __init__(self, server: Server, lock: Path) -> None:
        self.server = server
        self._lock = lock

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let no inference come to its end while the block runs."""
        with self._lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def number(self, series: str) -> float:
        """Give one number of the metrics; 0 before it is there."""
        page = self.server.rest.get("/metrics").text
        found = re.search(rf"^{re.escape(series)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def inferences(self, model: str) -> float:
        stage = f'{{model_name="{model}",version="1",stage="inference"}}'
        return self.number(f"ie_serving_stage_seconds_count{stage}")

    def waiting(self, model: str) -> float:
        """How many requests of one row wait for the infer request, or for their batch."""
        inferences = self.number(
            f'ie_serving_queued_inferences{{model_name="{model}",version="1"}}'
        )
        return inferences + self.number(f'ie_serving_batch_waiting_rows{{model_name="{model}"}}')


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    base = tmp_path_factory.mktemp("line")
    shutil.copytree(SAMPLE / "1", base / "digits" / "1")
    (base / "lock").touch()
    entry = {"base_path": str(base / "digits"), "nireq": 1, "execution": "async"}
    models = {"alone": entry, "batched": {**entry, "max_batch_size": 8}}
    command = (sys.executable, str(SCRIPT), *several(base / "config.json", models))
    exact = "--inference_precision=f32"
    flags = (f"--rest_timeout_seconds={SHORT_S}", "--metrics_path=/metrics", exact)
    env = {"INFERENCES_WAIT_FOR": str(base / "lock")}
    with Server(*command, *flags, env=env) as server:
        yield Line(server.ready(), base / "lock")


def late_over_grpc(line: Line, model: str) -> None:
    with rpc_refused("DEADLINE_EXCEEDED"):
        line.server.prediction.Predict(predict(name=model), SHORT_S)


def late_over_rest(line: Line, model: str) -> None:
    reply = line.server.rest.post(f"/v1/models/{model}:predict", content=BODY)
    assert reply.status_code == 504


def gone_over_grpc(line: Line, model: str) -> None:
    left = line.server.prediction.Predict.future(predict(name=model), PATIENCE_S)
    until(lambda: line.waiting(model) == 1)
    left.cancel()


def gone_over_rest(line: Line, model: str) -> None:
    head = f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: x\r\n"
    address = ("127.0.0.1", line.server.rest_port)
    with socket.create_connection(address, PATIENCE_S) as client:
        client.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
        until(lambda: line.waiting(model) == 1)
        reset_at_close(client)


AT_ENGINE = {"alone": 1, "batched": 2}
"""Inferences that the engine has before others wait: of gathered requests one ahead."""


@pytest.mark.parametrize("model", AT_ENGINE)
@pytest.mark.parametrize("leave", [late_over_grpc, late_over_rest, gone_over_grpc, gone_over_rest])
def test_a_request_whose_client_has_left_costs_no_inference(
    line: Line, leave: Callable[[Line, str], None], model: str
) -> None:
    """Those before it and the one behind it are answered, as by OpenVINO itself."""
    before, rows_before = line.inferences(model), line.number(ROWS % model)
    request = predict(name=model)
    request.inputs["image"].CopyFrom(tf.make_tensor_proto(IMAGES[:1]))
    in_flight = f'ie_serving_in_flight_requests{{model_name="{model}",version="1"}}'
    with line.busy():
        before_it = []
        for number in range(1, AT_ENGINE[model] + 1):
            before_it.append(line.server.prediction.Predict.future(request, PATIENCE_S))
            until(lambda number=number: line.number(in_flight) == number)  # type: ignore[misc]
        leave(line, model)
        until(lambda: line.waiting(model) == 0)
    for each in before_it:
        found = tf.make_ndarray(each.result(PATIENCE_S).outputs["probabilities"])
        np.testing.assert_allclose(found, directly(1)["probabilities"][:1], atol=1e-6)
    ask = over_grpc if leave in (late_over_grpc, gone_over_grpc) else over_rest
    found = ask(line.server, None, IMAGES[:1], model)["probabilities"]
    np.testing.assert_allclose(found, directly(1)["probabilities"][:1], atol=1e-6)
    answered = AT_ENGINE[model] + 1
    assert line.inferences(model) - before == answered
    assert line.number(ROWS % model) - rows_before == (answered if model == "batched" else 0)
