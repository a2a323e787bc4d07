"""What one client can make the server spend: a bound of time and of memory for each attack.

`docs/reference/attacks.md` names these tests. Sizes of requests are those that were seen to stop
the server.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from gzip import compress as gzip_of
from typing import Any

import pytest

from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.counting import MOST_MESSAGES
from tests.functional.cost import bounded
from tests.functional.payloads import EMPTY, MEGABYTE, filled, models, send
from tests.functional.protocols.http2_client import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    HELLO,
    block,
    frame,
    outcome,
    request,
)
from tests.functional.servers import SAMPLE_FLAGS, Server
from tests.process import PATIENCE_S
from tests.unit.wire.protobuf.nesting import nested

BUDGET = 200 * MEGABYTE
ABOVE = BUDGET + 200 * MEGABYTE
"""Peak of memory where the budget alone is the bound: work takes more than what is counted."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("ie_serving", "model", *SAMPLE_FLAGS, f"--memory_budget_bytes={BUDGET}") as server:
        yield server.ready()


def test_a_reload_of_a_million_models_is_refused(server: Server) -> None:
    """3 KB of gzip are 3 MB of empty entries; to compare each name with each other took hours."""
    payload = models(1_500_000)
    with bounded(server, 400 * MEGABYTE):
        code, text = send(server, "ModelService/HandleReloadConfigRequest", payload, gzip=True)
    assert code == "INVALID_ARGUMENT"
    assert "at most 10000" in text


def test_a_reload_of_nameless_models_is_linear(server: Server) -> None:
    payload = models(9_999)
    with bounded(server, 100 * MEGABYTE):
        code, text = send(server, "ModelService/HandleReloadConfigRequest", payload)
    assert code == "INVALID_ARGUMENT"
    assert "has no name" in text


def test_the_tasks_of_a_multi_inference_are_bounded(server: Server) -> None:
    """145 KB of tasks, each compared with all before it, took 75 s."""
    request = messages.MultiInferenceRequest()
    for number in range(9_000):
        request.tasks.add().model_spec.signature_name = f"{number}"
        request.tasks[number].model_spec.name = "digits"
    with bounded(server, 100 * MEGABYTE):
        code, text = send(server, "PredictionService/MultiInference", request.SerializeToString())
    assert code == "INVALID_ARGUMENT"
    assert "tasks" in text


@pytest.mark.parametrize("method", ["Classify", "Regress"])
def test_a_context_for_many_examples_is_linear(server: Server, method: str) -> None:
    """65 KB: 4,000 features of the context, merged into each of 16,000 examples, took 23 s."""
    request = messages.ClassificationRequest()
    request.model_spec.name = "digits"
    listed = request.input.example_list_with_context
    for number in range(4_000):
        listed.context.features.feature[f"{number:x}"].SetInParent()
    for _ in range(16_000):
        listed.examples.add()
    payload = request.SerializeToString()
    with bounded(server, 100 * MEGABYTE):
        code, _ = send(server, f"PredictionService/{method}", payload)
    assert code == "INVALID_ARGUMENT"


_SIZES = nested(2, 2, content=b"\x12\x00" * MOST_MESSAGES)
"""A shape of so many dimensions, in a tensor."""
PASSED_OVER = b"\x13\x14" + b"\x20" + b"\xff" * 9 + b"\x01"
"""An empty group and a value of ten bytes, both of fields that no request has."""


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        pytest.param("Classify", nested(2, 1, content=EMPTY * MOST_MESSAGES), id="Examples"),
        pytest.param("Predict", nested(2, content=b"\x0a\x01x" + _SIZES), id="sizes"),
    ],
)
def test_messages_are_counted_whatever_comes_before_them(
    server: Server, method: str, payload: bytes
) -> None:
    """Examples behind what the count did not understand, and the sizes of a shape, 2 bytes each."""
    with bounded(server, 100 * MEGABYTE):
        code, text = send(server, f"PredictionService/{method}", PASSED_OVER + payload)
    assert code == "INVALID_ARGUMENT"
    assert "send it in parts" in text


def test_tensors_that_are_filled_up_stay_within_the_budget(server: Server) -> None:
    """100 calls of 41 bytes for 64 MB each took 6.4 GB."""
    payload = filled((64 * MEGABYTE) // 4)
    call: Any = server.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    with bounded(server, ABOVE, 20):
        futures = [call.future(payload, PATIENCE_S) for _ in range(100)]
        codes = {future.code().name for future in futures}
    assert codes <= {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}


def test_a_megabyte_of_gzip_stays_within_the_budget(server: Server) -> None:
    """It becomes a gigabyte, for which the server took 3 GB; here a quarter of that is enough."""
    payload = nested(2, content=bytes(BUDGET + 50 * MEGABYTE))
    with bounded(server, ABOVE, 10):
        code, text = send(server, "PredictionService/Predict", payload, gzip=True)
    assert code == "RESOURCE_EXHAUSTED"
    assert "--memory_budget_bytes" in text


def test_100_kb_of_gzip_over_rest_are_bounded(server: Server) -> None:
    """They became 100 MB of JSON, and took 70 s of processor time."""
    body = gzip_of(b'{"instances": [' + b"[NaN]," * (90 * MEGABYTE // 6))
    assert len(body) < 200_000
    with bounded(server, ABOVE, 30):
        reply = server.rest.post(
            "/v1/models/digits:predict", content=body, headers={"Content-Encoding": "gzip"}
        )
    assert reply.status_code == 413
    assert "100 times" in reply.json()["error"]


def test_a_header_table_that_churns_silences_no_other_client(server: Server) -> None:
    """2 MB of entries that drive each other out cost 5.4 s, and others waited as long."""
    churn = block(request(path="/nowhere")) + b"\x40\x01a\x01b" * 400
    flags = END_HEADERS | END_STREAM
    sent = b"".join(frame(HEADERS, flags, 2 * n + 1, churn) for n in range(1000))
    with bounded(server, 100 * MEGABYTE, 4.0):
        found = outcome(server.port, HELLO, sent)
    assert found.split(", ") == [f"{2 * n + 1} status 12" for n in range(1000)]


_GET = b"GET /v1/models/digits/metadata HTTP/1.1\r\nHost: x\r\n\r\n"
_POST = b"POST /v1/models/digits:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
HELD = (
    _GET * (250_000 // len(_GET)),
    _GET[:-2] + b"".join(b"x%d:\r\n" % number for number in range(1000)),
    _POST + b"2\r\nab\r\n" * 30_000,
)
"""What a client may send that then is silent, and reads nothing: requests, headers, a body."""


def test_connections_that_wait_hold_little_more_than_they_sent(server: Server) -> None:
    """Each was held as 3.3 MB, 174 KB or 1.8 MB, which no budget counted."""
    with ExitStack() as clients, bounded(server, 80 * MEGABYTE, 10):
        for sent in HELD * 40:
            client = clients.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(0.02)
            client.connect(("127.0.0.1", server.rest_port))
            with suppress(TimeoutError):
                client.sendall(sent)
        # All of it was met before this is answered.
        assert server.rest.get("/v1/models/digits").status_code == 200
