"""Streams over gRPC: a real server, over each of its transports, and the real client."""

import os
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tensorflow_serving.apis import predict_pb2

from ie_serving.wire.protobuf.messages import DESCRIPTORS
from tests.functional.asking import predict_request
from tests.functional.servers import Server, rpc_refused
from tests.functional.stream_models import write
from tests.process import PATIENCE_S

METHOD = "/ie_serving.StreamService/PredictStream"


def _response_class() -> Any:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("ie_serving.PredictStreamResponse"))


Response = _response_class()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def file(root: Path) -> Path:
    return write(root)


@pytest.fixture(scope="module", params=["http2", "grpcio"])
def server(request: pytest.FixtureRequest, file: Path) -> Iterator[Server]:
    flags = ("--allow_python", f"--grpc_transport={request.param}")
    with Server("ie_serving", "config", f"--config_path={file}", *flags) as server:
        yield server.ready()


def predict(*values: float, model: str = "twice") -> Any:
    return predict_request(model, x=np.array(values, np.float32))


class Talk:
    """One stream, of which requests are sent one by one."""

    def __init__(self, server: Server, **metadata: str) -> None:
        converse = server.channel.stream_stream(METHOD, response_deserializer=Response.FromString)
        self._requests: queue.Queue[bytes | None] = queue.Queue()
        given = [(name.replace("_user", "-user"), value) for name, value in metadata.items()]
        self.call: Any = converse(
            iter(self._requests.get, None), timeout=PATIENCE_S, metadata=given
        )

    def send(self, *requests: Any) -> None:
        for request in requests:
            raw = isinstance(request, bytes)
            self._requests.put(request if raw else request.SerializeToString())

    def end(self) -> None:
        self._requests.put(None)

    def answer(self) -> tuple[int, Any]:
        """Give the next answer: which request it is of, and its values or its error."""
        return told(next(self.call))


def told(reply: Any) -> tuple[int, Any]:
    if reply.HasField("error"):
        return reply.index, (reply.error.code, reply.error.message)
    response = predict_pb2.PredictResponse.FromString(reply.response.SerializeToString())
    assert response.model_spec.version.value == 1
    return reply.index, tf.make_ndarray(response.outputs["y"]).tolist()


def test_each_request_is_answered_in_order(server: Server) -> None:
    talk = Talk(server)
    talk.send(*(predict(n) for n in range(100)))
    talk.end()
    assert [told(reply) for reply in talk.call] == [(n, [2.0 * n]) for n in range(100)]
    assert talk.call.code() is grpc.StatusCode.OK


def test_a_graph_answers_streams_as_any_model(server: Server) -> None:
    talk = Talk(server)
    talk.send(*(predict(n, model="fourfold") for n in range(20)))
    talk.end()
    assert [told(reply) for reply in talk.call] == [(n, [4.0 * n]) for n in range(20)]


def test_an_answer_comes_before_the_next_request(server: Server) -> None:
    talk = Talk(server)
    for n in range(3):
        talk.send(predict(n))
        assert talk.answer() == (n, [2.0 * n])
    talk.call.cancel()


def test_a_fault_of_one_request_ends_no_other(server: Server) -> None:
    talk = Talk(server)
    wrong = predict(1)
    wrong.inputs["z"].CopyFrom(wrong.inputs["x"])
    talk.send(b"\xff", predict(1), wrong, predict(1, model="sums"), predict(2))
    talk.end()
    answers = [told(reply) for reply in talk.call]
    assert [index for index, _ in answers] == [0, 1, 2, 3, 4]
    assert [answers[1][1], answers[4][1]] == [[2.0], [4.0]]
    codes = {index: said[0] for index, said in answers if isinstance(said, tuple)}
    assert codes == {0: 3, 2: 3, 3: 3}
    assert "open a stream for it alone" in answers[3][1][1]


def test_requests_of_one_stream_may_name_several_models(server: Server) -> None:
    talk = Talk(server)
    talk.send(predict(1), predict(1, model="fourfold"), predict(2, model="none"), predict(2))
    talk.end()
    answers = dict(told(reply) for reply in talk.call)
    assert (answers[0], answers[1], answers[3]) == ([2.0], [4.0], [4.0])
    assert answers[2][0] == 5


def test_a_model_that_is_not_there_is_told_and_the_next_is_asked(server: Server) -> None:
    talk = Talk(server)
    talk.send(predict(1, model="none"), predict(1))
    talk.end()
    (_, (code, _)), second = (told(reply) for reply in talk.call)
    assert (code, second) == (grpc.StatusCode.NOT_FOUND.value[0], (1, [2.0]))


def test_of_a_live_source_the_oldest_are_dropped_and_counted(server: Server, root: Path) -> None:
    with (root / "gate").open("r+b", buffering=0) as gate:
        talk = Talk(server, drop_oldest="1")
        talk.send(predict(0, model="gated"))
        other = Talk(server)
        talk.send(*(predict(n, model="gated") for n in range(1, 6)))
        talk.end()
        # By the time that these are answered, one by one, what was sent before them has come.
        for n in range(20):
            other.send(predict(n))
            other.answer()
        other.call.cancel()
        gate.write(b"..")
        replies = list(talk.call)
    assert [(reply.index, reply.dropped) for reply in replies] == [(0, 0), (5, 4)]
    page = server.rest.get("/metrics").text
    assert 'ie_serving_stream_requests_dropped_total{model_name="gated"} 4' in page


def test_a_client_that_reads_nothing_is_held_back(server: Server) -> None:
    """Of a client that sends without end, as much is taken as windows and eight in flight allow."""
    sent = 0

    def requests() -> Iterator[bytes]:
        nonlocal sent
        payload = predict(*range(250_000)).SerializeToString()
        while sent < 200:
            sent += 1
            yield payload

    converse = server.channel.stream_stream(METHOD, response_deserializer=Response.FromString)
    call: Any = converse(requests(), timeout=PATIENCE_S)
    assert next(call).index == 0
    unary = Talk(server)
    for n in range(20):
        unary.send(predict(n))
        unary.answer()
    held = sent
    call.cancel()
    unary.call.cancel()
    assert held < 60  # of a MB each: windows of client and server, what is in flight, and buffers


def test_an_option_beyond_its_limit_is_refused(server: Server) -> None:
    talk = Talk(server, in_flight="65")
    talk.send(predict(1))
    with rpc_refused("INVALID_ARGUMENT", 'in_flight is "65"; expected a number from 1 to 64'):
        next(talk.call)


def test_a_kernel_gives_none_or_several_replies(server: Server) -> None:
    talk = Talk(server, x_user="10")
    talk.send(predict(1, model="sums"))
    talk.send(predict(2, model="sums"))
    assert [talk.answer(), talk.answer()] == [(1, [3.0]), (1, [11.0])]
    talk.send(*(predict(n, model="sums") for n in (3, 4, 5)))
    talk.end()
    assert [told(reply) for reply in talk.call] == [(3, [7.0]), (3, [12.0]), (4, [5.0])]


def test_a_fault_in_a_kernels_stream_is_one_requests_error(server: Server) -> None:
    talk = Talk(server)
    wrong = predict(1, model="sums")
    wrong.inputs["z"].CopyFrom(wrong.inputs["x"])
    talk.send(predict(1, model="sums"), wrong, predict(-2, model="sums"), predict(2, model="sums"))
    talk.end()
    answers = [told(reply) for reply in talk.call]
    assert [(index, said[0]) for index, said in answers[:2]] == [(1, 3), (2, 13)]
    assert "as output" in answers[1][1][1]
    assert answers[2:] == [(3, [3.0]), (3, [1.0])]


def test_a_kernel_that_fails_ends_its_stream_with_the_cause(server: Server) -> None:
    talk = Talk(server)
    talk.send(predict(-1, model="sums"))
    with rpc_refused("INTERNAL", "ValueError: below 0"):
        next(talk.call)


@pytest.mark.parametrize("model", ["early", "early_and_wrong"])
def test_a_kernel_that_replies_before_it_takes_a_request_is_told_so(
    server: Server, model: str
) -> None:
    talk = Talk(server)
    talk.send(predict(1, model=model))
    with rpc_refused("INTERNAL", "before it took a request"):
        next(talk.call)


def test_a_kernel_is_told_when_its_client_leaves(server: Server, root: Path) -> None:
    talk = Talk(server)
    talk.send(predict(7, model="endless"))
    assert talk.answer() == (0, [7.0])
    talk.call.cancel()
    with (root / "notes").open() as notes:  # opens when the kernel does
        assert notes.read() == "ended"


def test_a_generator_of_ovms_gives_all_that_it_yields(server: Server) -> None:
    talk = Talk(server)
    talk.send(predict(3, model="node"), predict(0, model="node"), predict(1, model="node"))
    talk.end()
    given = [told(reply) for reply in talk.call]
    assert given == [(0, [0.0]), (0, [1.0]), (0, [2.0]), (2, [0.0])]


def test_a_kernel_in_a_process_answers_streams_as_in_a_thread(server: Server) -> None:
    talk = Talk(server, x_user="100")
    talk.send(*(predict(n, model="apart") for n in range(3)))
    talk.end()
    assert [told(reply) for reply in talk.call] == [(1, [1.0]), (1, [101.0]), (2, [2.0])]


def test_a_stream_alone_does_not_answer_predict(server: Server) -> None:
    with rpc_refused("FAILED_PRECONDITION"):
        server.prediction.Predict(predict(1, model="sums"), PATIENCE_S)


def test_a_deadline_ends_the_stream(server: Server) -> None:
    converse = server.channel.stream_stream(METHOD, response_deserializer=Response.FromString)
    call: Any = converse(iter(queue.Queue().get, None), timeout=0.2)
    with rpc_refused("DEADLINE_EXCEEDED"):
        next(call)


def test_at_the_end_of_a_version_and_of_the_server_streams_are_told(tmp_path: Path) -> None:
    flags = ("--allow_python", "--file_system_poll_wait_seconds=0.1")
    with Server("ie_serving", "config", f"--config_path={write(tmp_path)}", *flags) as server:
        of_version, talk = Talk(server.ready()), Talk(server)
        of_version.send(predict(1, model="sums"), predict(2, model="sums"))
        assert of_version.answer() == (1, [3.0])
        (tmp_path / "sums" / "2").mkdir()
        server.line("model=sums version=1 state=UNLOADING")
        of_version.send(predict(1, model="sums"))
        with rpc_refused("UNAVAILABLE", 'version 1 of "sums" is being unloaded'):
            while next(of_version.call):
                pass
        talk.send(predict(1))
        assert talk.answer() == (0, [2.0])
        os.kill(server.popen.pid, 15)
        with rpc_refused("UNAVAILABLE", "the server is shutting down"):
            next(talk.call)
        server.popen.wait(PATIENCE_S)
        assert server.popen.returncode == 0
