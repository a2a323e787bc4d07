"""What probes of both interfaces are told, from the first load to the end."""

import asyncio
import logging

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ie_serving.server.fronts.admin.grpc_health import NAME, HealthService
from ie_serving.server.fronts.admin.health import (
    PHASES,
    Health,
    PhaseEvent,
    ProcessPhase,
    ProcessReadiness,
)
from ie_serving.server.transport.grpc.services import CallContext
from tests.unit.moves import check_moves

PATIENCE_S = 5
MOVES = """
          SERVED  STOP
STARTING  READY   STOPPING
READY     .       STOPPING
STOPPING  .       STOPPING
"""


def test_every_event_in_every_phase_leads_as_written_here() -> None:
    check_moves(PHASES, ProcessPhase, PhaseEvent, MOVES)


class Nobody(CallContext):
    """A call without a deadline or metadata."""


class Process:
    """Both kinds of health, and models that serve when `served` is set."""

    def __init__(self) -> None:
        self.health = Health()
        self._grpc = HealthService([], lambda model: False)
        self.served = asyncio.Event()
        self.readiness = ProcessReadiness(self.health, self._grpc, self._served)

    async def _served(self) -> None:
        await self.served.wait()

    async def told(self) -> tuple[int, bool]:
        """HTTP's status, and whether gRPC says SERVING."""
        check = self._grpc.services()[NAME]["Check"]
        assert callable(check)
        reply = await check(HealthCheckRequest().SerializeToString(), Nobody())
        serving = HealthCheckResponse.FromString(reply).status == HealthCheckResponse.SERVING
        return self.health.ready_reply()[0], serving


async def turns() -> None:
    """Let what is due run: a task that wakes, and what it calls."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_its_start_is_over_when_it_was_ready_and_stays_so_while_it_drains() -> None:
    process = Process()
    assert process.health.startup_reply()[0] == 503
    process.served.set()
    process.readiness.begin()
    await turns()
    assert process.health.startup_reply() == (200, b'{"started":true}')
    process.readiness.end()
    assert process.health.startup_reply()[0] == 200
    assert process.health.ready_reply()[0] == 503


async def test_it_is_ready_when_the_ports_are_open_and_every_model_has_served() -> None:
    process = Process()
    assert await process.told() == (503, False)
    process.readiness.begin()
    await turns()
    assert await process.told() == (503, False)
    process.served.set()
    await turns()
    assert await process.told() == (200, True)
    process.readiness.end()
    assert await process.told() == (503, False)


async def test_models_that_serve_after_the_end_change_nothing() -> None:
    process = Process()
    process.readiness.begin()
    await turns()
    process.readiness.end()
    process.served.set()
    await turns()
    assert await process.told() == (503, False)


async def test_a_defect_is_logged_and_leaves_it_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    process = Process()

    async def broken() -> None:
        raise RuntimeError("odd")

    process.readiness = ProcessReadiness(
        process.health, HealthService([], lambda model: False), broken
    )
    with caplog.at_level(logging.ERROR, "ie_serving"):
        process.readiness.begin()
        await turns()
    assert "readiness failed by a defect" in caplog.text
    assert await process.told() == (503, False)
