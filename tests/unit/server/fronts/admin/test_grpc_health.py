"""Health as load balancers and Kubernetes ask for it."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ie_serving.core.values.errors import InvalidRequest, NotFound
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.admin.grpc_health import (
    NAME,
    NOT_SERVING,
    SERVICE_UNKNOWN,
    SERVING,
    HealthService,
)
from ie_serving.server.transport.grpc.services import StreamingMethod

NEVER: Any = None

SERVED = "tensorflow.serving.PredictionService"


class Context:
    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> tuple[()]:
        return ()


def request(name: str) -> bytes:
    return HealthCheckRequest(service=name).SerializeToString()


class Models:
    """Model `m`, which is configured, and whether a version of it answers."""

    def __init__(self) -> None:
        self.serves = False

    def __call__(self, model: ModelSpec) -> bool:
        if model.name != "m":
            raise NotFound(model.name)
        return self.serves


def service_of(models: Models | None = None) -> HealthService:
    return HealthService([SERVED], models or Models(), watch_s=0.001)


async def checked(service: HealthService, payload: bytes) -> int:
    method = service.services()[NAME]["Check"]
    assert not isinstance(method, StreamingMethod)
    return HealthCheckResponse.FromString(await method(payload, Context())).status


def watched(service: HealthService, *payloads: bytes) -> AsyncGenerator[bytes, None]:
    async def requests() -> AsyncIterator[bytes]:
        for payload in payloads:
            yield payload

    method = service.services()[NAME]["Watch"]
    assert isinstance(method, StreamingMethod)
    return method.converse(requests(), NEVER)


@pytest.mark.parametrize("name", ["", NAME, SERVED, "PredictionService"])
async def test_served_names(name: str) -> None:
    """The server as a whole, full names, and short ones, which TensorFlow Serving's users send."""
    service = service_of()
    assert await checked(service, request(name)) == NOT_SERVING
    service.allow()
    assert await checked(service, request(name)) == SERVING
    service.refuse()
    assert await checked(service, request(name)) == NOT_SERVING


async def test_a_check_of_an_unknown_service_fails() -> None:
    """And says which there are."""
    with pytest.raises(NotFound, match=f'no service or model "x" here.*{SERVED}'):
        await checked(service_of(), request("x"))


async def test_bytes_that_are_no_request_are_invalid() -> None:
    with pytest.raises(InvalidRequest):
        await checked(service_of(), b"\xff\xff")


async def test_a_watch_tells_the_state_now_and_when_it_changes() -> None:
    service = service_of()
    watch = watched(service, request(""))
    told = [await anext(watch)]
    for change in (service.allow, service.refuse):
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        assert not waiting.done()
        change()
        told.append(await waiting)
    assert [HealthCheckResponse.FromString(each).status for each in told] == [
        NOT_SERVING,
        SERVING,
        NOT_SERVING,
    ]
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


@pytest.mark.parametrize("name", ["", "m"])
async def test_a_watch_ends_without_a_change_when_another_process_takes_over(name: str) -> None:
    models = Models()
    models.serves = True
    service = service_of(models)
    service.allow()
    watch = watched(service, request(name))
    first = HealthCheckResponse.FromString(await anext(watch)).status
    service.hand_over()
    told = [HealthCheckResponse.FromString(each).status async for each in watch]
    assert {first, *told} == {SERVING}
    assert await checked(service, request(name)) == SERVING


async def test_a_watch_that_begins_late_ends_at_once() -> None:
    service = service_of()
    service.refuse()
    replies = [reply async for reply in watched(service, request(""))]
    assert [HealthCheckResponse.FromString(each).status for each in replies] == [NOT_SERVING]


@pytest.mark.parametrize("name", ["", "m"])
async def test_a_watch_stays_open_in_the_delay_of_a_drain(name: str) -> None:
    """A client whose Watch ends begins the next at once, and would do nothing else."""
    service = HealthService([SERVED], Models(), watch_s=0.001, drain_delay_s=0.05)
    service.refuse()
    watch = watched(service, request(name))
    first = HealthCheckResponse.FromString(await anext(watch)).status
    began = time.monotonic()
    assert [first, *[reply async for reply in watch]] == [NOT_SERVING]
    assert time.monotonic() - began > 0.025


async def test_a_watch_of_nothing_ends() -> None:
    assert [reply async for reply in watched(service_of())] == []


async def test_a_model_is_a_service_of_its_name() -> None:
    models = Models()
    service = service_of(models)
    assert await checked(service, request("m")) == NOT_SERVING
    models.serves = True
    assert await checked(service, request("m")) == SERVING, "whatever the other models do"
    service.refuse()
    assert await checked(service, request("m")) == NOT_SERVING


async def test_a_watch_of_a_model_tells_each_change_until_the_server_stops() -> None:
    models = Models()
    service = service_of(models)
    watch = watched(service, request("m"))
    told = [await anext(watch)]
    models.serves = True
    told.append(await anext(watch))
    service.refuse()
    told.append(await anext(watch))
    states = [HealthCheckResponse.FromString(each).status for each in told]
    assert states == [NOT_SERVING, SERVING, NOT_SERVING]
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


async def test_a_watch_of_an_unknown_name_says_so_and_goes_on() -> None:
    """As the protocol has it: the service may come later."""
    service = service_of()
    watch = watched(service, request("x"))
    assert HealthCheckResponse.FromString(await anext(watch)).status == SERVICE_UNKNOWN
    ending = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    assert not ending.done()
    service.refuse()
    with pytest.raises(StopAsyncIteration):
        await ending
