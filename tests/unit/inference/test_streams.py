"""Streams of a process: how many, what a client may ask of its own, and how all of them end."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ie_serving.core.values.errors import InvalidRequest, NotAvailable, QueueFull
from ie_serving.inference.stream_flow import Inflow
from ie_serving.inference.streams import IN_FLIGHT, OpenStreams, StreamReplies, options_of
from ie_serving.server.fronts.tfs.rest_interface import rest_interface
from tests.unit.inference.stand_ins import Heart

NEVER: Any = None


async def _nothing() -> AsyncIterator[bytes]:
    for each in (b"a", b"b"):
        yield each


def test_one_more_than_there_may_be_is_refused() -> None:
    every = OpenStreams(most=1)
    refused = pytest.raises(QueueFull, match="1 streams are open already")
    with every.opened(Inflow(_nothing())), refused:
        every.check()
    every.check()


async def test_one_that_is_refused_is_counted() -> None:
    heart, interface = Heart(), rest_interface(limit_s=1.0)
    streams: StreamReplies[Any] = StreamReplies(await heart.plane(), interface, OpenStreams(most=0))
    with pytest.raises(QueueFull):
        await anext(streams.replies(_nothing(), NEVER, options_of({})))
    assert heart.counted() == ['{model_name="",status="RESOURCE_EXHAUSTED"} 1']


async def test_at_the_end_of_the_server_no_further_request_is_taken() -> None:
    every, requests = OpenStreams(), Inflow(_nothing())
    with pytest.raises(NotAvailable, match="shutting down"), every.opened(requests):
        assert await anext(requests) == b"a"
        every.stop()
        assert [each async for each in requests] == []
    with pytest.raises(NotAvailable):
        every.check()


@pytest.mark.parametrize(
    ("given", "at_once", "waiting"),
    [
        pytest.param({}, IN_FLIGHT, 0, id="nothing"),
        pytest.param({"in_flight": "64"}, 64, 0, id="in_flight"),
        pytest.param({"drop_oldest": "3"}, 1, 3, id="drop_oldest"),
        pytest.param({"drop_oldest": "3", "in_flight": "2"}, 2, 3, id="both"),
        pytest.param({"user-agent": "any"}, IN_FLIGHT, 0, id="another field"),
    ],
)
def test_a_client_chooses_how_many_are_in_flight_or_dropped(
    given: dict[str, str], at_once: int, waiting: int
) -> None:
    options = options_of(given)
    assert (options.at_once, options.drop_oldest) == (at_once, waiting)


@pytest.mark.parametrize("value", ["", "0", "65", "-1", "1.5", "\u0661", "9" * 5000])
@pytest.mark.parametrize("name", ["in_flight", "drop_oldest"])
def test_a_number_that_a_client_may_not_ask_for_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is .* expected a number from 1 to 64"):
        options_of({name: value})
