"""How many requests are worked on at a time, over both ports together."""

import asyncio
from typing import Any, cast

import pytest

from ie_serving.core.values.errors import QueueFull
from ie_serving.server.fronts.rest.replies import refusal
from ie_serving.server.gate.in_flight import InFlightLimit
from ie_serving.server.transport.http1.messages import Reply, Request, RequestHead
from tests.tables import named_by

NEVER: Any = None


class Worked:
    """Answers both ports when it may."""

    def __init__(self, most: int) -> None:
        self.go = asyncio.Event()
        self.refused: list[BaseException] = []
        limit = InFlightLimit(most, self.refused.append)
        methods = {"Predict": self._call, "GetModelMetadata": self._call}
        self.methods = cast("Any", limit.grpc(methods))
        self._app = limit.rest(self._answer, refusal)

    async def _call(self, payload: Any, context: Any) -> bytes:
        await self.go.wait()
        return b"reply"

    async def _answer(self, request: Request) -> Reply:
        await self.go.wait()
        return Reply(200, (), b"reply")

    def call(self, method: str = "Predict") -> "asyncio.Future[bytes]":
        return asyncio.ensure_future(self.methods[method](b"", NEVER))

    def ask(self, method: str = "POST", path: str = "/v1/models/m:predict") -> Any:
        head = RequestHead(method, path.encode(), b"", "1.1", (), {}, 0, True, False)
        return asyncio.ensure_future(self._app(Request(head, b"")))


async def test_one_more_than_there_may_be_is_refused_on_both_ports() -> None:
    worked = Worked(2)
    first, second = worked.call(), worked.ask()
    await asyncio.sleep(0)
    with pytest.raises(QueueFull, match="2 requests are worked on"):
        await worked.call()
    reply = await worked.ask()
    assert (reply.status, dict(reply.headers)[b"retry-after"]) == (429, b"1")
    assert len(worked.refused) == 2
    worked.go.set()
    assert (await first, (await second).status) == (b"reply", 200)
    assert (await worked.call(), (await worked.ask()).status) == (b"reply", 200)


async def test_a_client_that_leaves_gives_room() -> None:
    worked = Worked(1)
    for ask in (worked.call, worked.ask):
        leaving = ask()
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait((leaving,))
    worked.go.set()
    assert await worked.call() == b"reply"


@named_by(
    "method path",
    ("method", "path"),
    [
        ("GET", "/v2/health/ready"),
        ("GET", "/metrics"),
        ("POST", "/v1/config/reload"),
        ("POST", "/V1/log_level"),
        ("POST", "/v1/models/m:labels"),
        ("POST", "/page/programs"),
    ],
)
async def test_a_request_that_runs_no_model_is_answered(method: str, path: str) -> None:
    worked = Worked(1)
    held = worked.call()
    await asyncio.sleep(0)
    looks = [worked.ask(method, path), worked.call("GetModelMetadata")]
    await asyncio.sleep(0)
    worked.go.set()
    assert [await each for each in looks] == [Reply(200, (), b"reply"), b"reply"]
    await held


async def test_a_model_is_no_page_whatever_its_name() -> None:
    worked = Worked(1)
    held = worked.call()
    await asyncio.sleep(0)
    assert (await worked.ask(path="/dlim/v1/inference/reload")).status == 429
    worked.go.set()
    await held


def test_without_a_limit_nothing_stands_in_between() -> None:
    limit = InFlightLimit(0, NEVER)
    methods: Any = {}
    assert limit.grpc(methods) is methods
    assert limit.rest(NEVER, refusal) is NEVER
