"""The Open Inference Protocol over REST: imported with the first request."""

import sys
from typing import Any

import pytest

from ie_serving.app.fronts import kserve_routes
from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import NotFound
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served_models import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.kserve_v2 import ParsedPath, asked
from ie_serving.server.fronts.kserve_v2.servable_lookup import model_spec
from ie_serving.server.fronts.rest.routes import Routes
from ie_serving.server.transport.http1.messages import AnyReply, Reply, Request, RequestHead
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.wire.kserve.regions import OFF
from tests.tables import named_by
from tests.unit.inference.stand_ins import Heart

FRONT = "ie_serving.server.fronts.kserve_v2.front"
WIRE = "ie_serving.wire.kserve.request"
ELSEWHERE = Reply(200, (), b"elsewhere")
NEVER: Any = None


async def elsewhere(_: Request) -> AnyReply:
    return ELSEWHERE


def head(method: str, path: str) -> RequestHead:
    return RequestHead(method, path.encode(), b"", "1.1", (), {}, 0, True, False)


async def ask(routes: Routes[ParsedPath], method: str, path: str) -> AnyReply:
    return await routes.before(elsewhere)(Request(head(method, path), b""))


async def test_nothing_is_imported_before_the_first_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (FRONT, WIRE):
        monkeypatch.delitem(sys.modules, name, raising=False)
    over = (await Heart().plane(), ServedModels(), Health(), Metrics())
    routes = kserve_routes(
        over, ServerSettings(), lambda interface: interface, lambda: (NEVER, NEVER, OFF)
    )
    for path in ("/v1/models", "/v2/health/live", "/v2/models/m/ready", "/v2x"):
        assert await ask(routes, "GET", path) is ELSEWHERE
    assert FRONT not in sys.modules
    assert WIRE not in sys.modules
    reply = await ask(routes, "GET", "/v2")
    assert (reply.status, FRONT in sys.modules) == (200, True)
    assert isinstance(over[0], DataPlane)


@named_by(
    "method path",
    ("method", "path", "found"),
    [
        ("POST", "/v2/models/m/infer", ParsedPath("infer", "m")),
        ("POST", "/v2/models/m/infer/", ParsedPath("infer", "m")),
        ("POST", "/v2/models/a%2Fb/versions/v%201/infer", ParsedPath("infer", "a/b", "v 1")),
        ("GET", "/v2/models/m", ParsedPath("metadata", "m")),
        ("HEAD", "/v2/models/m/versions/3", ParsedPath("metadata", "m", "3")),
        ("GET", "/v2/models/m/versions/stable/ready", ParsedPath("ready", "m", "stable")),
        ("GET", "/v2/models/m/versions/3/ready", None),
        ("GET", "/v2/models/m/infer", ParsedPath("wrong_method", "m", allowed="POST")),
        ("POST", "/v2/models/%FF/infer", ParsedPath("infer", "\ufffd")),
        ("OPTIONS", "/v2/models/m/infer", ParsedPath("preflight")),
        ("GET", "/v2", ParsedPath("server")),
        ("GET", "/v2x", None),
        ("GET", "/v2/health/live", None),
        ("GET", "/v2/logging", ParsedPath("log_settings")),
        ("POST", "/v2/models/m/trace/setting", ParsedPath("change_trace_settings", "m")),
        ("POST", "/v2/models/m/generate_stream", ParsedPath("generate", "m")),
        ("POST", "/v2/models//infer", ParsedPath("unknown")),
        ("POST", "/v2/models/m/versions//infer", ParsedPath("unknown")),
        ("POST", "/v2/models/m/n/infer", ParsedPath("unknown")),
        ("POST", "/V2/models/m/infer", None),
        ("POST", f"/v2/models/{'m' * 300}/infer", ParsedPath("infer", "m" * 300)),
    ],
)
def test_a_path_names_a_task_and_a_model(method: str, path: str, found: ParsedPath | None) -> None:
    assert asked(head(method, path)) == found


@named_by(
    "version",
    ("version", "number", "label"),
    [
        ("", None, None),
        ("3", 3, None),
        ("003", 3, None),
        ("stable", None, "stable"),
        ("-1", None, "-1"),
        ("v10", None, "v10"),
        ("\u0663", None, "\u0663"),
    ],
)
def test_a_version_is_a_number_or_a_label(
    version: str, number: int | None, label: str | None
) -> None:
    found = model_spec("m", version)
    assert (found.name, found.version, found.label) == ("m", number, label)


@pytest.mark.parametrize("version", [str(1 << 63), "9" * 10_000])
def test_a_number_beyond_64_bits_is_no_version(version: str) -> None:
    with pytest.raises(NotFound, match="64 bits"):
        model_spec("m", version)
