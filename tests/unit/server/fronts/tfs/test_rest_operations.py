"""What a deployment asks of one model over REST: look now, and whether it is ready."""

import asyncio
import json

import pytest

from ie_serving.core.values.errors import NotFound, Unreachable
from ie_serving.server.fronts.admin.health import ProcessPhase
from tests.unit.inference.stand_ins import MODEL, Heart
from tests.unit.server.fronts.tfs.interfaces import Rest

PATIENCE_S = 20.0


async def test_a_poll_is_answered_with_the_status_that_follows() -> None:
    asked: list[str] = []

    async def poll(model: str) -> None:
        asked.append(model)

    rest = Rest(await Heart().plane(), poll=poll)
    answer = await rest.call("POST", f"/v1/models/{MODEL}:poll", b"{}")
    assert answer == await rest.call("GET", f"/v1/models/{MODEL}")
    assert answer[0] == 200
    assert asked == [MODEL]


@pytest.mark.parametrize(
    ("error", "status"), [(NotFound("no such model"), 404), (Unreachable("s3: no answer"), 503)]
)
async def test_a_poll_that_fails_says_why_and_is_counted(error: Exception, status: int) -> None:
    async def poll(model: str) -> None:
        raise error

    heart = Heart()
    code, text = await Rest(await heart.plane(), poll=poll).call("POST", "/v1/models/m:poll")
    assert (code, json.loads(text)) == (status, {"error": str(error)})
    assert len(heart.counted()) == 1


async def test_a_poll_that_takes_too_long_is_not_waited_for() -> None:
    rest = Rest(await Heart().plane(), limit_s=0.01, poll=lambda model: asyncio.sleep(PATIENCE_S))
    code, text = await asyncio.wait_for(rest.call("POST", "/v1/models/m:poll"), PATIENCE_S)
    assert code == 504
    assert "not listed within 0.01 s" in json.loads(text)["error"]


async def test_polls_can_be_switched_off() -> None:
    rest = Rest(await Heart().plane(), poll_allowed=False)
    code, text = await rest.call("POST", f"/v1/models/{MODEL}:poll")
    assert code == 403
    assert "polls by request are switched off" in json.loads(text)["error"]


async def test_probes_tell_the_phase_of_the_whole_server() -> None:
    rest = Rest(await Heart().plane())
    for phase, ready, started in (
        (ProcessPhase.STARTING, 503, 503),
        (ProcessPhase.READY, 200, 200),
        (ProcessPhase.STOPPING, 503, 200),
    ):
        rest.health.phase = phase
        assert [
            (await rest.call("GET", path))[0]
            for path in ("/ping", "/v2/health/ready", "/v2/health/startup", "/v2/health/live")
        ] == [ready, ready, started, 200]


async def test_a_model_says_whether_it_is_ready_whatever_the_others_do() -> None:
    rest = Rest(await Heart().plane())
    for path, status in (
        ("/v2/models/m/ready", 200),
        ("/v2/models/m/versions/3/ready", 200),
        ("/v2/models/m/versions/4/ready", 503),
        ("/v2/models/other/ready", 404),
    ):
        assert (await rest.call("GET", path))[0] == status, path
    assert json.loads((await rest.call("GET", "/v2/models/m/ready"))[1]) == {
        "name": "m",
        "ready": True,
    }
    rest.health.phase = ProcessPhase.STOPPING
    assert (await rest.call("GET", "/v2/models/m/ready"))[0] == 503
