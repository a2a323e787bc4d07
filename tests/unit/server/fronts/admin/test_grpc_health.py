"""Health as load balancers and Kubernetes ask for it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ie_serving.core.errors import InvalidRequest, NotFound
from ie_serving.server.fronts.admin.grpc_health import (
    NAME,
    NOT_SERVING,
    SERVICE_UNKNOWN,
    SERVING,
    HealthService,
)
from ie_serving.server.transport.grpc.services import Streaming

SERVED = "tensorflow.serving.PredictionService"


class Context:
    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> tuple[()]:
        return ()


def request(name: str) -> bytes:
    return HealthCheckRequest(service=name).SerializeToString()


async def checked(service: HealthService, payload: bytes) -> int:
    method = service.services()[NAME]["Check"]
    assert not isinstance(method, Streaming)
    return HealthCheckResponse.FromString(await method(payload, Context())).status


def watched(service: HealthService, *payloads: bytes) -> AsyncGenerator[bytes, None]:
    async def requests() -> AsyncIterator[bytes]:
        for payload in payloads:
            yield payload

    method = service.services()[NAME]["Watch"]
    assert isinstance(method, Streaming)
    return method.converse(requests())


@pytest.mark.parametrize("name", ["", NAME, SERVED, "PredictionService"])
async def test_served_names(name: str) -> None:
    """The server as a whole, full names, and short ones, which TensorFlow Serving's users send."""
    service = HealthService([SERVED])
    assert await checked(service, request(name)) == NOT_SERVING
    service.allow()
    assert await checked(service, request(name)) == SERVING
    service.refuse()
    assert await checked(service, request(name)) == NOT_SERVING


async def test_a_check_of_an_unknown_service_fails() -> None:
    """And says which there are."""
    with pytest.raises(NotFound, match=f'no service "x" here.*{SERVED}'):
        await checked(HealthService([SERVED]), request("x"))


async def test_what_is_no_request_is_invalid() -> None:
    with pytest.raises(InvalidRequest):
        await checked(HealthService([SERVED]), b"\xff\xff")


@pytest.mark.parametrize(
    ("name", "states"), [("", [NOT_SERVING, SERVING, NOT_SERVING]), ("x", [SERVICE_UNKNOWN] * 3)]
)
async def test_a_watch_tells_the_state_now_and_when_it_changes(
    name: str, states: list[int]
) -> None:
    """The service says so with a status, not an error, if it is unknown; then the call ends."""
    service = HealthService([SERVED])
    watch = watched(service, request(name))
    told = [await anext(watch)]
    for change in (service.allow, service.refuse):
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        assert not waiting.done()
        change()
        told.append(await waiting)
    assert [HealthCheckResponse.FromString(each).status for each in told] == states
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


async def test_a_watch_that_begins_late_ends_at_once() -> None:
    service = HealthService([SERVED])
    service.refuse()
    replies = [reply async for reply in watched(service, request(""))]
    assert [HealthCheckResponse.FromString(each).status for each in replies] == [NOT_SERVING]


async def test_a_watch_of_nothing_ends() -> None:
    assert [reply async for reply in watched(HealthService([SERVED]))] == []
