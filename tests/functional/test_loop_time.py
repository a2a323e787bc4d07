"""How long a single request, however hostile, holds the event loop: 50 ms, but for new memory."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.functional.hostile import REQUESTS, serve
from tests.functional.loop_time import MOST_HELD_S, LoopTime
from tests.functional.payloads import MEGABYTE
from tests.functional.servers import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    budget = f"--memory_budget_bytes={512 * MEGABYTE}"
    with closing(serve(tmp_path_factory.mktemp("models"), budget)) as server:
        yield server.ready()


@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_holds_the_event_loop(server: Server, name: str) -> None:
    worker = server.pids()[1]
    with LoopTime(server) as loop:
        REQUESTS[name](server)
    print(f"{name}: held {loop.longest_s * 1e3:.1f} ms, slowest {loop.slowest_s * 1e3:.0f} ms")
    assert server.pids()[1] == worker
    assert loop.longest_s < MOST_HELD_S
