"""What stands between a transport and what answers, where the access log is on."""

import asyncio
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ie_serving.core.access import Credentials
from ie_serving.core.codes import Code
from ie_serving.core.errors import NotFound, Unauthenticated
from ie_serving.inference.examples import ExampleCodec
from ie_serving.inference.noted import NotedPlane
from ie_serving.models.served import ServedModels
from ie_serving.server.access_log.grpc_log import LoggedAnswer, SampledAnswer, ToldCall
from ie_serving.server.access_log.optional import OptionalWatch
from ie_serving.server.access_log.rest_log import SampledApp
from ie_serving.server.transport.grpc import replies
from ie_serving.server.transport.grpc import request as grpc_request
from ie_serving.server.transport.grpc.call import UnaryCall
from ie_serving.server.transport.grpc.conversation import StreamingCall
from ie_serving.server.transport.grpc.services import Streaming
from ie_serving.server.transport.http1.messages import Ends, Reply, Request, RequestHead
from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.sender import Sender
from ie_serving.server.transport.http2.streams import Streams
from ie_serving.telemetry.entry import current
from ie_serving.telemetry.inferences import Inferences
from ie_serving.telemetry.metrics import Metrics
from ie_serving.telemetry.traces import Traces
from ie_serving.telemetry.watch import Watch
from ie_serving.wire.tfs.example import parse_examples, serialize_examples

Answer = Callable[..., Awaitable[Any]]
Fields = Callable[[], dict[str, Any]]


class Context:
    """A call over grpcio, as far as it is asked."""

    def __init__(self, *metadata: tuple[Any, Any]) -> None:
        self._metadata = metadata
        self.trailing: Any = None

    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> Any:
        return self._metadata

    def peer(self) -> object:
        return "ipv4:10.0.0.7:5123"

    def set_trailing_metadata(self, pairs: Any) -> None:
        self.trailing = pairs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


@pytest.fixture
def access(path: Path) -> OptionalWatch:
    return OptionalWatch(str(path), "json")


@pytest.fixture
def line(access: OptionalWatch, path: Path) -> Iterator[Fields]:
    """Ends the log, and gives the fields of its one line."""

    def read() -> dict[str, Any]:
        asyncio.run(access.close())
        fields: dict[str, Any] = json.loads(path.read_text())["fields"]
        return fields

    yield read
    asyncio.run(access.close())


def request(*headers: tuple[bytes, bytes]) -> Request:
    head = RequestHead("POST", b"/x", b"k=v", "1.1", headers, dict(headers), 3, True, False)
    return Request(head, b"abc", None, Ends(("10.0.0.7", 5123)))


def raising(error: BaseException) -> Answer:
    async def answer(*_: object) -> Any:
        raise error

    return answer


async def reply_nothing(_: Request) -> Reply:
    return Reply(200, ((b"content-type", b"text/plain"),), b"")


def test_where_it_is_off_nothing_stands_in_front() -> None:
    off = OptionalWatch("", "text")
    services = {"s": {"m": raising(NotFound(""))}}
    assert off.rest(reply_nothing) is reply_nothing
    assert off.grpc(services, None) == (services, None)
    assert off.calls() == (UnaryCall, StreamingCall)
    assert (type(off.record("m", 1)), off.steps(print), off.batches) == (Inferences, print, None)
    asyncio.run(off.close())


def test_a_reply_over_rest_has_the_clients_id(access: OptionalWatch, line: Fields) -> None:
    reply = asyncio.run(access.rest(reply_nothing)(request((b"x-request-id", b"7f-1"))))
    assert reply == Reply(200, ((b"content-type", b"text/plain"),), b"", b"x-request-id: 7f-1\r\n")
    fields = line()
    assert (fields["id"], fields["client"], fields["path"]) == ("7f-1", "10.0.0.7:5123", "/x")
    assert (fields["bytes_in"], fields["bytes_out"], fields["code"]) == (3, 0, 200)


def test_what_a_client_sends_fills_neither_the_queue_nor_the_file(
    access: OptionalWatch, line: Fields
) -> None:
    codec = ExampleCodec(parse_examples, serialize_examples)
    plane = NotedPlane(ServedModels(), Metrics(), codec, method_name_check=False)

    async def answer(_: Request) -> Reply:
        plane.refused("m" * 9000, NotFound(""))
        return await reply_nothing(_)

    asked = request()
    long = asked._replace(head=asked.head._replace(path=b"/" + b"x" * 9000))
    asyncio.run(access.rest(answer)(long))
    fields = line()
    assert (fields["path"], fields["model"]) == ("/" + "x" * 255, "m" * 256)


@pytest.mark.parametrize(
    ("error", "code"), [(asyncio.CancelledError(), 499), (ZeroDivisionError(), 500)]
)
def test_a_request_over_rest_without_a_reply(
    access: OptionalWatch, line: Fields, error: BaseException, code: int
) -> None:
    with pytest.raises(type(error)):
        asyncio.run(access.rest(raising(error))(request()))
    assert line()["code"] == code


@pytest.mark.parametrize("metadata", [("x-request-id", "7f-1"), (b"x-request-id", b"7f-1")])
def test_a_call_has_the_clients_id_in_its_status(
    access: OptionalWatch, line: Fields, metadata: tuple[Any, Any]
) -> None:
    async def answer(payload: object, context: object) -> bytes:
        assert current() is not None
        return b"four"

    method = access.grpc({"pkg.S": {"M": answer}}, None)[0]["pkg.S"]["M"]
    assert isinstance(method, LoggedAnswer)
    context = Context(("te", "trailers"), metadata)
    assert asyncio.run(_awaited(method(b"abc", context))) == b"four"
    assert context.trailing == (("x-request-id", "7f-1"),)
    fields = line()
    assert (fields["id"], fields["method"], fields["path"]) == ("7f-1", "M", "/pkg.S/M")
    assert (fields["bytes_in"], fields["bytes_out"], fields["code"]) == (3, 4, "OK")


async def _awaited(work: Awaitable[bytes]) -> bytes:
    return await work


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("no such model"), "NOT_FOUND"),
        (ZeroDivisionError(), "INTERNAL"),
        (asyncio.CancelledError(), "CANCELLED"),
        (asyncio.CancelledError(Code.DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED"),
    ],
)
def test_a_call_that_fails(
    access: OptionalWatch, line: Fields, error: BaseException, code: str
) -> None:
    method = access.grpc({"s": {"m": raising(error)}}, None)[0]["s"]["m"]
    assert isinstance(method, LoggedAnswer)
    with pytest.raises(type(error)):
        asyncio.run(_awaited(method(b"", Context())))
    assert line()["code"] == code


CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-%s"


@pytest.mark.parametrize("interface", ["REST", "gRPC"])
async def test_a_request_that_is_not_traced_adds_nothing_to_one_before_it(interface: str) -> None:
    """Those of one connection begin in one context, in which the first is still under way."""
    entries: list[object] = []

    async def answer(*_: object) -> Any:
        entries.append(current())
        await asyncio.Event().wait()

    watch = Watch(None, Traces("", InMemorySpanExporter()), timing=False)

    def begun(flags: str) -> Any:
        value = CONTEXT % flags
        if interface == "REST":
            asked = SampledApp(answer, watch)(request((b"traceparent", value.encode())))
        else:
            asked = SampledAnswer("/s/m", answer, watch)(b"", Context(("traceparent", value)))
        running = asked.__await__()
        next(running)
        return running

    first, second = begun("01"), begun("00")
    assert [each is None for each in entries] == [False, True]
    second.close()
    with pytest.raises(asyncio.CancelledError):
        first.throw(asyncio.CancelledError())
    watch.close()


class Door:
    """Admits whoever has a key."""

    decided: Mapping[Any, Any] = MappingProxyType({})

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def method(self, path: bytes, credentials: Credentials) -> Any:
        if not credentials.key:
            raise Unauthenticated("no key")
        return self._answer


def test_who_is_not_admitted_has_a_line(access: OptionalWatch, line: Fields) -> None:
    services = {"s": {"m": raising(NotFound(""))}}
    unchanged, admission = access.grpc(services, Door(raising(NotFound(""))))
    assert unchanged is services
    assert admission is not None
    with pytest.raises(Unauthenticated):
        admission.method(b"/s/m", Credentials(None, None, ()))
    fields = line()
    assert (fields["path"], fields["code"]) == ("/s/m", "UNAUTHENTICATED")


def test_what_answers_whom_is_admitted_is_logged(access: OptionalWatch, line: Fields) -> None:
    _, admission = access.grpc({}, Door(raising(NotFound(""))))
    assert admission is not None
    method = admission.method(b"/s/m", Credentials(None, b"key", ()))
    assert isinstance(method, LoggedAnswer)
    with pytest.raises(NotFound):
        asyncio.run(_awaited(method(b"", Context())))
    assert line()["code"] == "NOT_FOUND"


async def echo(requests: AsyncIterator[Any], _: Any) -> AsyncGenerator[bytes, None]:
    async for request in requests:
        if request == b"bad":
            raise NotFound("no such model")
        yield bytes(request)


@pytest.mark.parametrize(
    ("sent", "read", "code", "sizes"),
    [
        ([b"one", b"two!"], 2, "OK", (7, 7)),
        ([b"one", b"bad"], 2, "NOT_FOUND", (6, 3)),
        ([b"one", b"two"], 1, "CANCELLED", (3, 3)),
    ],
)
def test_a_conversation_has_its_line_when_it_ends(
    access: OptionalWatch,
    line: Fields,
    sent: list[bytes],
    read: int,
    code: str,
    sizes: tuple[int, int],
) -> None:
    method = access.grpc({"pkg.S": {"Talk": Streaming(echo)}}, None)[0]["pkg.S"]["Talk"]
    assert isinstance(method, Streaming)
    context = Context(("x-request-id", "7f-1"))

    async def requests() -> AsyncGenerator[bytes, None]:
        for each in sent:
            yield each

    async def converse() -> None:
        async with aclosing(method.converse(requests(), context)) as replies:
            for _ in range(read):
                await anext(replies)
            if read == len(sent):
                with pytest.raises(StopAsyncIteration):
                    await anext(replies)

    with suppress(NotFound):
        asyncio.run(converse())
    fields = line()
    assert (fields["id"], fields["path"], fields["code"]) == ("7f-1", "/pkg.S/Talk", code)
    assert (fields["bytes_in"], fields["bytes_out"]) == sizes
    assert fields["total_ms"] > 0
    assert fields["decode_ms"] is None
    assert context.trailing == (("x-request-id", "7f-1"),)


@pytest.mark.parametrize("value", ["7f", "x" * 126, "x" * 127, "x" * 128])
def test_metadata_of_an_id_is_written_as_hpack_has_it(access: OptionalWatch, value: str) -> None:
    """Of a call that fails, and of one that succeeds, whose whole frame is written."""
    call, trailing = ToldCall.__new__(ToldCall), replies.block(("x-request-id", value))
    call.number = 0x01020304
    call._request = grpc_request.Request(b"/s/m", fields=((b"x-request-id", value.encode()),))
    call._sender = Sender(Streams(), lambda: None)
    method: Any = access.grpc({"s": {"m": raising(NotFound(""))}}, None)[0]["s"]["m"]
    method.begun(call)
    assert call._trailing == trailing
    assert call._after == frames.headers(call.number, replies.SUCCESS + trailing, ends=True)


def test_calls_of_one_method_have_each_its_own_id(access: OptionalWatch) -> None:
    """What was read of headers is kept for calls that share them, and for no others."""

    async def answer(*_: object) -> bytes:
        return b""

    services, _ = access.grpc({"s": {"m": answer}}, None)
    method = services["s"]["m"]
    first, other = (("x-request-id", "a"),), ((b"x-request-id", b"b"),)
    found = []
    for metadata in (first, first, (), other, first):
        context = Context(*metadata)
        asyncio.run(method(b"", context))
        found.append(context.trailing and context.trailing[0][1])
    assert found == ["a", "a", None, "b", "a"]
    asyncio.run(access.close())


def test_who_fails_without_an_id_is_told_the_one_of_the_line(
    access: OptionalWatch, line: Fields
) -> None:
    method = access.grpc({"s": {"m": raising(NotFound(""))}}, None)[0]["s"]["m"]
    context = Context()
    with pytest.raises(NotFound):
        asyncio.run(method(b"", context))
    ((name, id),) = context.trailing
    assert (name, len(id), line()["id"]) == ("x-request-id", 28, id)


def test_who_fails_over_rest_is_told_it_too(access: OptionalWatch, line: Fields) -> None:
    async def refuse(_: Request) -> Reply:
        return Reply(404, (), b"")

    reply = asyncio.run(access.rest(refuse)(request()))
    name, _, id = reply.lines.decode().rstrip().partition(": ")
    assert (name, len(id), line()["id"]) == ("x-request-id", 28, id)


def test_who_succeeds_without_an_id_is_sent_none(access: OptionalWatch, line: Fields) -> None:
    """The line has one; to send and to read it would cost more than the rest of the log."""
    reply = asyncio.run(access.rest(reply_nothing)(request()))
    assert (reply.lines, len(line()["id"])) == (b"", 28)
