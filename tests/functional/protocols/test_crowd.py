"""2,000 calls at once over one or two connections, as a proxy sends those of its clients.

Their headers differ from call to call, and enter the table: request ids and trace contexts.
"""

import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from hpack import Encoder
from openvino import opset13 as op

from ie_serving.wire.protobuf import messages
from tests.functional.protocols.http2_client import (
    END_HEADERS,
    HEADERS,
    HELLO,
    Client,
    data,
    frame,
    request,
    window_update,
)
from tests.functional.servers import Server
from tests.unit.engines.openvino.models import parameter, result, save

SIZE = 256
LAYERS = 24
ANNOUNCED = 1000
"""SETTINGS_MAX_CONCURRENT_STREAMS of the server."""
PREDICT = "/tensorflow.serving.PredictionService/Predict"


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose model is slower than calls come."""
    base = tmp_path_factory.mktemp("slow")
    x = node = parameter("x", [-1, SIZE])
    for _ in range(LAYERS):
        node = op.relu(op.matmul(node, op.constant(np.eye(SIZE, dtype=np.float32)), False, False))
    save(base / "1", [result("y", op.reduce_sum(node, op.constant([1]), False))], [x])
    with Server(
        "ie_serving", "model", "--model_name=slow", f"--model_path={base}", "--nireq=1"
    ) as server:
        yield server.ready()


def _message() -> bytes:
    asked = messages.PredictRequest()
    asked.model_spec.name = "slow"
    tensor = asked.inputs["x"]
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=16)
    tensor.tensor_shape.dim.add(size=SIZE)
    tensor.float_val.append(1)
    content = asked.SerializeToString()
    return bytes([0, *len(content).to_bytes(4, "big")]) + content


class Proxy:
    """One connection of a proxy."""

    def __init__(self, port: int) -> None:
        self.client = Client(port)
        self._encoder = Encoder()
        self._next = 1
        self.client.send(HELLO + window_update(0, 1 << 30))

    def calls(self, count: int) -> Counter[str]:
        """Make so many calls at once; say what came of them."""
        numbers = range(self._next, self._next + 2 * count, 2)
        self._next = numbers.stop
        content = _message()
        sent = [self._headers(number) + data(number, content) for number in numbers]
        self.client.send(b"".join(sent))
        return Counter(self.client.answer(number) for number in numbers)

    def _headers(self, number: int) -> bytes:
        name = uuid.uuid4()
        trace = f"00-{name.hex}-{name.hex[:16]}-01"
        fields = request(("x-request-id", str(name)), ("traceparent", trace), path=PREDICT)
        return frame(HEADERS, END_HEADERS, number, self._encoder.encode(fields))


def test_as_many_as_announced_over_two_connections_are_all_answered(slow: Server) -> None:
    """847 of 2,000 were refused: more than 1,000 waited for the model."""

    def calls(_: int) -> Counter[str]:
        proxy = Proxy(slow.port)
        with closing(proxy.client):
            return proxy.calls(ANNOUNCED)

    with ThreadPoolExecutor(2) as pool:
        found = sum(pool.map(calls, range(2)), Counter())
    assert found == {"answered": 2 * ANNOUNCED}


def test_whatever_is_refused_may_be_sent_again(slow: Server) -> None:
    """A proxy that sends more than announced: REFUSED_STREAM says that nothing was done."""
    proxy = Proxy(slow.port)
    with closing(proxy.client):
        found = proxy.calls(2 * ANNOUNCED)
        assert set(found) <= {"answered", "REFUSED_STREAM"}
        assert found["answered"] >= ANNOUNCED
        again = proxy.calls(min(found["REFUSED_STREAM"], ANNOUNCED))
    assert set(again) <= {"answered"}
