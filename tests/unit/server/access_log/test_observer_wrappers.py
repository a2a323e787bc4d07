"""What stands between a transport and what answers, where the access log is on."""

import asyncio
import json
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ie_serving.core.values.access import Credentials
from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import NotFound, Unauthenticated
from ie_serving.inference.examples import ExampleCodec
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served_models import ServedModels
from ie_serving.server.access_log import OptionalWatch
from ie_serving.server.access_log.grpc_log import LoggedHandler, SampledHandler
from ie_serving.server.access_log.rest_log import ObservedConnection, PartsApp
from ie_serving.server.transport.grpc.call import UnaryCall
from ie_serving.server.transport.grpc.conversation import StreamingCall
from ie_serving.server.transport.grpc.services import StreamingMethod
from ie_serving.server.transport.http1.connection import Http1Connection
from ie_serving.server.transport.http1.messages import Reply, Request
from ie_serving.telemetry.metrics.inferences import Inferences
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.request.entry import current
from ie_serving.telemetry.request.observers import RequestWatch
from ie_serving.telemetry.trace.traces import Traces
from ie_serving.wire.tfs.classify_regress import parse_examples, serialize_examples
from tests.tables import named_by
from tests.unit.server.transport.http1.talk import (
    GET,
    POST,
    Gate,
    Reader,
    Talk,
    answered,
    echo,
    failing,
    read,
    reply,
)

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


def raising(error: BaseException) -> Answer:
    async def answer(*_: object) -> Any:
        raise error

    return answer


async def reply_nothing(_: Request) -> Reply:
    return Reply(200, ((b"content-type", b"text/plain"),), b"")


def test_where_it_is_off_nothing_stands_in_front() -> None:
    off = OptionalWatch("", "text")
    services = {"s": {"m": raising(NotFound(""))}}
    assert off.rest(reply_nothing) == (reply_nothing, Http1Connection)
    assert off.grpc(services, None) == (services, None)
    assert off.calls() == (UnaryCall, StreamingCall)
    assert (type(off.record("m", 1)), off.steps(print), off.batches) == (Inferences, print, None)
    asyncio.run(off.close())


def test_times_that_are_told_over_rest_cost_calls_nothing() -> None:
    timing = OptionalWatch("", "text", timing=True)
    services = {"s": {"m": raising(NotFound(""))}}
    assert timing.grpc(services, None) == (services, None)
    assert timing.calls() == (UnaryCall, StreamingCall)
    asyncio.run(timing.close())


NAMED = POST.replace(b"Host: x\r\n", b"Host: x\r\nX-Request-Id: 7f-1\r\n")


def ended(line: Fields) -> dict[str, Any]:
    """Give the fields of the one line where a loop runs already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(line).result()


async def test_a_reply_over_rest_has_the_clients_id(access: OptionalWatch, line: Fields) -> None:
    heard = await Talk(echo, access.rest).say(NAMED)
    assert heard == answered(b"POST /a 1.1 abc").replace(
        b"content-length", b"x-request-id: 7f-1\r\ncontent-length"
    )
    fields = ended(line)
    assert (fields["id"], fields["client"], fields["path"]) == ("7f-1", "192.0.2.1:5", "/a")
    assert (fields["bytes_in"], fields["bytes_out"], fields["code"]) == (3, 15, 200)


async def test_text_that_a_client_sends_fills_neither_the_queue_nor_the_file(
    access: OptionalWatch, line: Fields
) -> None:
    codec = ExampleCodec(parse_examples, serialize_examples)
    plane = DataPlane(ServedModels(), Metrics(), codec, method_name_check=False)

    async def answer(_: object, receive: Any, send: Any) -> None:
        plane.refused("m" * 9000, NotFound(""))
        await reply(send, b"")

    await Talk(answer, access.rest).say(GET.replace(b"/b", b"/" + b"x" * 9000))
    fields = ended(line)
    assert (fields["path"], fields["model"]) == ("/" + "x" * 255, "m" * 256)


async def cancelling(*_: object) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("app", [failing, cancelling])
async def test_a_request_over_rest_that_a_defect_ends_has_its_code(
    access: OptionalWatch, line: Fields, app: Any
) -> None:
    assert (await Talk(app, access.rest).say(POST)).startswith(b"HTTP/1.1 500 ")
    assert ended(line)["code"] == 500


async def test_a_request_over_rest_whose_client_leaves_has_its_code(
    access: OptionalWatch, line: Fields
) -> None:
    gate = Gate()
    talk = Talk(gate, access.rest)
    await talk.say(POST)
    talk.hang_up()
    await talk.settle()
    assert (gate.cancelled, ended(line)["code"]) == (["/a"], 499)


async def test_a_request_over_rest_that_a_drain_cuts_has_its_code(
    access: OptionalWatch, line: Fields
) -> None:
    talk = Talk(Gate(), access.rest)
    await talk.say(POST)
    talk.host.draining = True
    talk.connection.cancel()
    await talk.settle()
    assert talk.heard.startswith(b"HTTP/1.1 503 ")
    assert ended(line)["code"] == 499


async def test_a_client_that_is_told_to_send_its_body_has_no_reply_yet(
    access: OptionalWatch, line: Fields
) -> None:
    reader = Reader()
    reader.open.set()
    talk = Talk(reader, access.rest)
    head = POST[:-3].replace(b"Host", b"Expect: 100-continue\r\nHost")
    assert await talk.say(head) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (await talk.say(b"abc")).endswith(answered(b"3"))
    assert ended(line)["bytes_in"] == 3


async def test_a_fault_on_one_connection_ends_no_request_of_another(
    access: OptionalWatch, line: Fields
) -> None:
    """Both begin in one context, in which the request is still under way."""
    gate = Gate()
    talk, other = Talk(gate, access.rest), Talk(gate, access.rest)
    await talk.say(POST)
    assert (await other.say(b"no request\r\n\r\n")).startswith(b"HTTP/1.1 501 ")
    gate.open.set()
    assert await talk.say() == answered(b"POST /a")
    assert ended(line)["code"] == 200


@pytest.mark.parametrize("metadata", [("x-request-id", "7f-1"), (b"x-request-id", b"7f-1")])
def test_a_call_has_the_clients_id_in_its_status(
    access: OptionalWatch, line: Fields, metadata: tuple[Any, Any]
) -> None:
    async def answer(payload: object, context: object) -> bytes:
        assert current() is not None
        return b"four"

    method = access.grpc({"pkg.S": {"M": answer}}, None)[0]["pkg.S"]["M"]
    assert isinstance(method, LoggedHandler)
    context = Context(("te", "trailers"), metadata)
    assert asyncio.run(_awaited(method(b"abc", context))) == b"four"
    assert context.trailing == (("x-request-id", "7f-1"),)
    fields = line()
    assert (fields["id"], fields["method"], fields["path"]) == ("7f-1", "M", "/pkg.S/M")
    assert (fields["bytes_in"], fields["bytes_out"], fields["code"]) == (3, 4, "OK")


async def _awaited(work: Awaitable[bytes]) -> bytes:
    return await work


@named_by(
    "code",
    ("error", "code"),
    [
        (NotFound("no such model"), "NOT_FOUND"),
        (ZeroDivisionError(), "INTERNAL"),
        (asyncio.CancelledError(), "CANCELLED"),
        (asyncio.CancelledError(Code.DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED"),
    ],
)
def test_a_call_that_fails_has_its_code(
    access: OptionalWatch, line: Fields, error: BaseException, code: str
) -> None:
    method = access.grpc({"s": {"m": raising(error)}}, None)[0]["s"]["m"]
    assert isinstance(method, LoggedHandler)
    with pytest.raises(type(error)):
        asyncio.run(_awaited(method(b"", Context())))
    assert line()["code"] == code


CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-%s"


async def test_a_call_that_is_not_traced_adds_nothing_to_one_before_it() -> None:
    """Those of one connection begin in one context, in which the first is still under way."""
    entries: list[object] = []

    async def answer(*_: object) -> Any:
        entries.append(current())
        await asyncio.Event().wait()

    watch = RequestWatch(None, Traces("", InMemorySpanExporter()), timing=False)

    def begun(flags: str) -> Any:
        asked = SampledHandler("/s/m", answer, watch)(
            b"", Context(("traceparent", CONTEXT % flags))
        )
        running = asked.__await__()
        next(running)
        return running

    first, second = begun("01"), begun("00")
    assert [each is None for each in entries] == [False, True]
    second.close()
    with pytest.raises(asyncio.CancelledError):
        first.throw(asyncio.CancelledError())
    watch.close()


async def test_a_request_that_is_not_traced_adds_nothing_to_one_before_it() -> None:
    spans = InMemorySpanExporter()
    watch = RequestWatch(None, Traces("", spans), timing=False)
    entries: list[object] = []

    class Noting(Gate):
        async def __call__(self, *asked: Any) -> None:
            entries.append(current())
            await super().__call__(*asked)

    gate = Noting()
    talks = []
    for flags in ("01", "00"):
        talk = Talk(
            gate, lambda app: (PartsApp(app, watch).answer, partial(ObservedConnection, watch))
        )
        line = f"traceparent: {CONTEXT % flags}\r\nHost".encode()
        await talk.say(POST.replace(b"Host", line))
        talks.append(talk)
    assert [each is None for each in entries] == [False, True]
    gate.open.set()
    assert [await talk.say() for talk in talks] == [answered(b"POST /a")] * 2
    watch.close()
    assert len(spans.get_finished_spans()) == 1


class Door:
    """Admits callers with a key."""

    decided: Mapping[Any, Any] = MappingProxyType({})

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def method(self, path: bytes, credentials: Credentials) -> Any:
        if not credentials.key:
            raise Unauthenticated("no key")
        return self._answer


def test_a_caller_that_is_not_admitted_has_a_line(access: OptionalWatch, line: Fields) -> None:
    services = {"s": {"m": raising(NotFound(""))}}
    unchanged, admission = access.grpc(services, Door(raising(NotFound(""))))
    assert unchanged is services
    assert admission is not None
    with pytest.raises(Unauthenticated):
        admission.method(b"/s/m", Credentials(None, None, ()))
    fields = line()
    assert (fields["path"], fields["code"]) == ("/s/m", "UNAUTHENTICATED")


def test_the_answer_to_an_admitted_caller_is_logged(access: OptionalWatch, line: Fields) -> None:
    _, admission = access.grpc({}, Door(raising(NotFound(""))))
    assert admission is not None
    method = admission.method(b"/s/m", Credentials(None, b"key", ()))
    assert isinstance(method, LoggedHandler)
    with pytest.raises(NotFound):
        asyncio.run(_awaited(method(b"", Context())))
    assert line()["code"] == "NOT_FOUND"


async def talk_back(requests: AsyncIterator[Any], _: Any) -> AsyncGenerator[bytes, None]:
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
    method = access.grpc({"pkg.S": {"Talk": StreamingMethod(talk_back)}}, None)[0]["pkg.S"]["Talk"]
    assert isinstance(method, StreamingMethod)
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


def test_a_client_that_fails_without_an_id_is_told_that_of_the_line(
    access: OptionalWatch, line: Fields
) -> None:
    method = access.grpc({"s": {"m": raising(NotFound(""))}}, None)[0]["s"]["m"]
    context = Context()
    with pytest.raises(NotFound):
        asyncio.run(method(b"", context))
    ((name, id),) = context.trailing
    assert (name, len(id), line()["id"]) == ("x-request-id", 28, id)


async def test_a_client_that_fails_over_rest_is_told_it_too(
    access: OptionalWatch, line: Fields
) -> None:
    async def refuse(_: object, receive: Any, send: Any) -> None:
        await read(receive)
        await reply(send, b"", 404)

    heard = await Talk(refuse, access.rest).say(POST)
    (id,) = re.findall(rb"x-request-id: (.*)\r\n", heard)
    assert (len(id), ended(line)["id"]) == (28, id.decode())


async def test_a_client_that_succeeds_without_an_id_is_sent_none(
    access: OptionalWatch, line: Fields
) -> None:
    """The line has one; to send and to read it would cost more than the rest of the log."""
    assert await Talk(echo, access.rest).say(POST) == answered(b"POST /a 1.1 abc")
    assert len(ended(line)["id"]) == 28
