"""The order of a worker's life, told by an application that writes down what it is asked."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import ServingError
from ie_serving.server.process.lifecycle import CLOSE_TIMEOUT_S, MakeListener, Orders, serve
from ie_serving.server.process.ports import PortError, PortSockets
from tests.tables import named_by

PATIENCE_S = 10
SETTINGS = ServerSettings(port=9000, rest_port=0, drain_timeout_s=3)
WHOLE_LIFE = ["start", "listen", "ready", "not ready", "drain 3", "close"]


class RecordedServer:
    """Writes down what a listener is asked."""

    def __init__(self, said: list[str]) -> None:
        self._said = said
        self.listen_error: OSError | None = None
        self.on_drain: Callable[[], object] = int
        self.in_flight = 0

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        self._said.append("listen")
        if self.listen_error:
            raise self.listen_error

    async def drain(self, timeout_s: float) -> int:
        self._said.append(f"drain {timeout_s:g}")
        self.on_drain()
        return self.in_flight


class Recorder:
    """Writes down what an application is asked; the test chooses what starting and reloading do."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.code_s = 0.0
        self.server = RecordedServer(self.said)
        self.on_start: Callable[[], Awaitable[None]] = nothing
        self.on_prepare: Callable[[], object] = int
        self.on_reload: Callable[[], Awaitable[None]] = nothing

    async def start(self) -> None:
        self.said.append("start")
        await self.on_start()

    def model_names(self) -> Sequence[str]:
        return ["resnet"]

    def listeners(self) -> Mapping[str, Callable[[], MakeListener]]:
        return {"gRPC": self._grpc, "REST": lambda: pytest.fail("REST is off")}

    def _grpc(self) -> MakeListener:
        self.on_prepare()
        return lambda: self.server

    async def set_ready(self, ready: bool) -> None:
        self.said.append("ready" if ready else "not ready")

    async def hand_over(self) -> None:
        self.said.append("hand over")

    async def reload(self) -> None:
        self.said.append("reload")
        await self.on_reload()

    async def close(self, limit_s: float) -> None:
        self.said.append("close")
        self.code_s = limit_s


async def nothing() -> None:
    pass


@pytest.fixture
def ports() -> Iterator[PortSockets]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield {"gRPC": (held,)}


async def life(
    application: Recorder, ports: PortSockets, orders: Orders, on_ready: Callable[[], None]
) -> None:
    await asyncio.wait_for(serve(application, SETTINGS, ports, orders, on_ready), PATIENCE_S)


async def test_a_whole_life_goes_from_start_to_end_in_order(ports: PortSockets) -> None:
    """Ports open after the start, readiness is withdrawn before connections are refused."""
    application, orders = Recorder(), Orders()
    await life(application, ports, orders, on_ready=orders.stop.set)
    assert application.said == WHOLE_LIFE


async def test_one_that_is_replaced_stays_ready_for_probes_and_does_not_wait(
    ports: PortSockets,
) -> None:
    """They ask at an address that others answer."""
    application, orders = Recorder(), Orders()
    orders.replaced = True
    await life(application, ports, orders, on_ready=orders.stop.set)
    expected = ["hand over" if each == "not ready" else each for each in WHOLE_LIFE]
    assert application.said == expected


@named_by(
    "drain_s",
    ("drain_s", "code_s"),
    [(0, 30), (10, 20), (28, CLOSE_TIMEOUT_S), (30, CLOSE_TIMEOUT_S)],
)
async def test_code_has_what_is_left_of_the_drain_timeout_to_end(
    ports: PortSockets, monkeypatch: pytest.MonkeyPatch, drain_s: float, code_s: float
) -> None:
    application, orders, now = Recorder(), Orders(), [0.0]
    monkeypatch.setattr("ie_serving.server.process.lifecycle.time.monotonic", lambda: now[0])
    application.server.on_drain = lambda: now.append(now.pop() + drain_s)
    settings = replace(SETTINGS, drain_timeout_s=30)
    await serve(application, settings, ports, orders, on_ready=orders.stop.set)
    assert application.code_s == code_s


async def test_the_begin_and_the_end_of_a_stop_are_logged(
    ports: PortSockets, caplog: pytest.LogCaptureFixture
) -> None:
    """The first of several causes counts."""
    caplog.set_level("INFO")
    application, orders = Recorder(), Orders()
    application.server.in_flight = 2

    def stop() -> None:
        orders.stop_for("SIGTERM")
        orders.stop_for("SIGINT")

    await life(application, ports, orders, on_ready=stop)
    begin, end = [line for line in caplog.messages if line.startswith("server ")]
    assert begin == (
        "server stops cause=SIGTERM drain_delay_s=0 drain_timeout_s=3 grpc_in_flight=2"
    )
    assert re.fullmatch(r"server has stopped took_s=[0-9.e-]+ requests_cut=2", end)


async def test_listeners_are_prepared_while_the_models_load(ports: PortSockets) -> None:
    """In a thread: what a port needs takes a hundred milliseconds to import."""
    application, orders = Recorder(), Orders()
    loop, prepared = asyncio.get_running_loop(), asyncio.Event()
    application.on_prepare = lambda: loop.call_soon_threadsafe(prepared.set)

    async def wait() -> None:
        await prepared.wait()

    application.on_start = wait
    await life(application, ports, orders, on_ready=orders.stop.set)
    assert application.said == WHOLE_LIFE


async def test_a_start_that_fails_opens_no_port_and_is_closed(ports: PortSockets) -> None:
    application, orders = Recorder(), Orders()

    async def fail() -> None:
        raise ServingError("no such bucket")

    application.on_start = fail
    with pytest.raises(ServingError, match="no such bucket"):
        await life(application, ports, orders, on_ready=pytest.fail)
    assert application.said == ["start", "close"]


async def test_a_stop_while_starting_cancels_the_start_and_is_logged_as_well(
    ports: PortSockets, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    application, orders = Recorder(), Orders()

    async def hang() -> None:
        orders.stop_for("SIGINT")
        try:
            await asyncio.Event().wait()
        finally:
            application.said.append("cancelled")

    application.on_start = hang
    await life(application, ports, orders, on_ready=pytest.fail)
    assert application.said == ["start", "cancelled", "close"]
    begin, end = caplog.messages
    assert begin.startswith("server stops cause=SIGINT ")
    assert end.endswith(" requests_cut=0")


async def test_a_port_that_cannot_be_listened_on_is_an_error_with_its_number(
    ports: PortSockets,
) -> None:
    application = Recorder()
    application.server.listen_error = OSError("taken")
    with pytest.raises(PortError, match=rf"gRPC port {ports['gRPC'][0].getsockname()[1]}: taken"):
        await life(application, ports, Orders(), on_ready=pytest.fail)
    assert application.said == ["start", "listen", "close"]


async def test_reloads_asked_for_during_a_reload_become_one(ports: PortSockets) -> None:
    application, orders = Recorder(), Orders()

    async def ask_twice_more() -> None:
        if application.said.count("reload") == 1:
            orders.reload.set()
            orders.reload.set()
        else:
            orders.stop.set()

    application.on_reload = ask_twice_more
    await life(application, ports, orders, on_ready=orders.reload.set)
    assert application.said.count("reload") == 2


@pytest.mark.parametrize("error", [ServingError("not JSON"), ZeroDivisionError("a defect")])
async def test_a_reload_that_fails_does_not_end_the_server(
    ports: PortSockets, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    application, orders = Recorder(), Orders()

    async def fail_once() -> None:
        if application.said.count("reload") == 2:
            orders.stop.set()
            return
        orders.reload.set()
        raise error

    application.on_reload = fail_once
    await life(application, ports, orders, on_ready=orders.reload.set)
    assert application.said[-3:] == WHOLE_LIFE[-3:]
    assert caplog.text.count("configuration not reloaded, the previous one stays") == 1


async def test_a_stop_during_a_reload_does_not_wait_for_it(ports: PortSockets) -> None:
    application, orders = Recorder(), Orders()

    async def hang() -> None:
        orders.stop.set()
        await asyncio.Event().wait()

    application.on_reload = hang
    await life(application, ports, orders, on_ready=orders.reload.set)
    assert application.said[-3:] == WHOLE_LIFE[-3:]
