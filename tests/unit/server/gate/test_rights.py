"""Every route and every RPC that is served has an entry, and no other."""

from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.descriptor_pool import DescriptorPool

from ie_serving.app.fronts import kserve_routes
from ie_serving.compat.stfs.front import ALIVE, ASK
from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.access import Need, Right
from ie_serving.core.values.errors import NotFound
from ie_serving.core.values.requests import CallerPassing
from ie_serving.server.fronts import kserve_v2 as kserve
from ie_serving.server.fronts import page
from ie_serving.server.fronts.admin import grpc_profiler
from ie_serving.server.fronts.admin.grpc_health import HealthService
from ie_serving.server.fronts.admin.grpc_profiler import ProfilerService
from ie_serving.server.fronts.admin.grpc_reflection import ReflectionService
from ie_serving.server.fronts.kserve_v2 import ParsedPath, lazy_grpc
from ie_serving.server.fronts.kserve_v2.lazy_grpc import LazyInference
from ie_serving.server.fronts.openapi import DOCUMENT
from ie_serving.server.fronts.rest.routes import Routes
from ie_serving.server.fronts.streams import LazyStreams
from ie_serving.server.fronts.tfs import model_service, prediction_service
from ie_serving.server.fronts.tfs.model_service import ModelService
from ie_serving.server.fronts.tfs.prediction_service import PredictionService
from ie_serving.server.fronts.tfs.rest_pages import fixed_pages
from ie_serving.server.fronts.tfs.rest_routes import GENERATED, page_verbs, wanting
from ie_serving.server.gate import rights
from ie_serving.server.transport.grpc.services import by_path
from ie_serving.server.transport.http1.messages import RequestHead
from tests.tables import named_by
from tests.unit.inference.stand_ins import Heart
from tests.unit.server.fronts.tfs.interfaces import Rest

NEVER: Any = None
PAGE_VERBS = {page.FILE, page.STATE, page.CONFIGURATION, page.MODEL, page.PROGRAMS}
REQUESTS = [
    ("POST", "/v1/models/m:predict", "predict", "m"),
    ("POST", "/V1/Models/a%2Fb/versions/3:classify", "classify", "a/b"),
    ("POST", "/v1/models/m/labels/l:regress", "regress", "m"),
    ("POST", "/v1/models/m/versions/2:invoke", "invoke", "m"),
    ("POST", "/v1/models/m:poll", "poll", "m"),
    ("POST", "/v1/models/m:labels", "labels", "m"),
    ("POST", "/v1/models/m/versions/1:labels", "nothing", ""),
    ("POST", "/v1/models/m/labels/l:labels", "nothing", ""),
    ("GET", "/v1/models/m:labels", "nothing", ""),
    ("GET", "/v1/models/a%2Fb/details", "details", "a/b"),
    ("GET", "/v1/models/m/versions/1/details", "nothing", ""),
    ("GET", "/v1/config/details", "all_details", ""),
    ("POST", "/v1/config/reload", "reload", ""),
    ("POST", "/V1/CONFIG/RELOAD", "reload", ""),
    ("GET", "/v1/config", "config", ""),
    ("GET", "/v1/log_level", "log_level", ""),
    ("POST", "/V1/log_level", "set_log_level", ""),
    ("POST", "/v1/log_level?x=1", "nothing", ""),
    ("GET", "/v1/models", "models", ""),
    ("GET", "/v1/models/m", "status", "m"),
    ("HEAD", "/v1/models/m/versions/1", "status", "m"),
    ("GET", "/v1/models/m/metadata", "metadata", "m"),
    ("GET", "/v1/models/m/gen_json", "gen_json", "m"),
    ("GET", "/v1/models/m/versions/1/gen_client?language=go", "gen_client", "m"),
    ("GET", "/v1/models/m:stream", "stream", "m"),
    ("GET", "/v1/models/a%2Fb/labels/l:stream?in_flight=2", "stream", "a/b"),
    ("POST", "/v1/models/m:stream", "nothing", ""),
    ("GET", "/v1/models/m:STREAM", "nothing", ""),
    ("GET", "/metrics", "metrics", ""),
    ("POST", "/metrics", "metrics", ""),
    ("GET", "/ping", "health", ""),
    ("GET", "/v2/health/live", "health", ""),
    ("GET", "/v2/health/ready", "health", ""),
    ("GET", "/v2/models/m/ready", "health", ""),
    ("OPTIONS", "/v1/models/m:predict", "preflight", ""),
    ("OPTIONS", "/metrics", "metrics", ""),
    ("GET", "/v1/config/reload", "nothing", ""),
    ("POST", "/v1/models/m:PREDICT", "nothing", ""),
    ("POST", "/v1/models/m:predict?x=1", "nothing", ""),
    ("DELETE", "/v1/models/m", "nothing", ""),
    ("GET", "/v2/health/startup", "health", ""),
]
OF_KSERVE = [
    ("POST", "/v2/models/m/infer", "predict", "m"),
    ("POST", "/v2/models/a%2Fb/versions/3/infer", "predict", "a/b"),
    ("GET", "/v2/models/m", "metadata", "m"),
    ("GET", "/v2/models/m/versions/stable", "metadata", "m"),
    ("GET", "/v2/models/m/versions/stable/ready", "status", "m"),
    ("GET", "/v2", "server", ""),
    ("POST", "/v2/repository/index", "config", ""),
    ("GET", "/v2/models/digits/stats", "status", "digits"),
    ("GET", "/v2/models/digits/versions/2/stats", "status", "digits"),
    ("GET", "/v2/models/stats", "models", ""),
    ("POST", "/v2/repository/models/m/load", "poll", "m"),
    ("POST", "/v2/repository/models/m/unload", "poll", "m"),
    ("GET", "/v2/models/m/infer", "nothing", "m"),
    ("GET", "/v2/models/m/ready", "health", ""),
    ("GET", "/v2/health/live", "health", ""),
    ("GET", "/metrics", "metrics", ""),
]
NOWHERE = ["/", "/metrics/", "/METRICS", "/ping/", "/v2/health", "/v2/models/m", "/v11/models"]


def test_every_rpc_has_an_entry() -> None:
    inference = LazyInference(
        NEVER, NEVER, NEVER, NEVER, NEVER, limit_s=None, callers=CallerPassing()
    )
    services = {
        prediction_service.NAME: PredictionService(NEVER, NEVER).handlers(),
        model_service.NAME: ModelService(NEVER, NEVER, NEVER, NEVER, NEVER, NEVER).handlers(),
        **LazyStreams(NEVER, tells_callers=False).grpc(NEVER, NEVER),
        lazy_grpc.NAME: inference.grpc(NEVER, NEVER),
        grpc_profiler.NAME: ProfilerService(NEVER).handlers(),
        **HealthService((), NEVER).services(),
        **ReflectionService((), DescriptorPool()).services(),
    }
    assert {path.decode() for path in by_path(services)} == set(rights.RPC)


async def test_every_route_has_an_entry() -> None:
    api = Rest(await Heart().plane()).api
    beside = {"reload", "metrics", "health", "preflight", "nothing", "stream"}
    of_others = {ASK, ALIVE, DOCUMENT, *PAGE_VERBS, *(right for _, right in kserve.VERBS.values())}
    assert {*api.runs, *api.looks, *GENERATED, *beside, *of_others} == set(rights.REST)
    for metrics_paths in ((), ("/metrics", "/monitoring")):
        verbs = page_verbs(metrics_paths)
        assert set(verbs) == set(fixed_pages(NEVER, NEVER, dict.fromkeys(metrics_paths, ())))
        assert set(verbs.values()) <= beside


@named_by("method target", ("method", "target", "verb", "model"), REQUESTS)
def test_a_request_needs_the_right_for_its_task_and_model(
    method: str, target: str, verb: str, model: str
) -> None:
    assert wanted(method, target) == (verb, model)


@named_by("method target", ("method", "target", "verb", "model"), OF_KSERVE)
def test_a_request_of_the_open_inference_protocol_needs_its_right(
    method: str, target: str, verb: str, model: str
) -> None:
    assert _kserve().wanted(wanting(["/metrics"]))(head(method, target)) == (verb, model)


def test_metrics_below_the_open_inference_protocol_are_still_metrics() -> None:
    path = "/v2/models/metrics"
    of_others = wanting([path])
    assert _kserve(path).wanted(of_others)(head("GET", path)) == ("metrics", "")


def _kserve(metrics_path: str = "/metrics") -> Routes[ParsedPath]:
    return kserve_routes(
        NEVER, ServerSettings(rest_port=1, metrics_path=metrics_path), NEVER, NEVER
    )


@pytest.mark.parametrize("target", NOWHERE)
def test_a_page_without_an_entry_is_nowhere(target: str) -> None:
    """Even if `RestApi` had it: what is not in the table is refused."""
    with pytest.raises(NotFound):
        wanted("GET", target)


def test_metrics_below_the_api_are_still_metrics() -> None:
    """Else every known caller might read them."""
    assert wanted("GET", "/v1/metrics", "/v1/metrics") == ("metrics", "")


def wanted(method: str, target: str, *metrics_paths: str) -> tuple[str, str]:
    return wanting(metrics_paths or ["/metrics"])(head(method, target))


def head(method: str, target: str) -> RequestHead:
    path, _, query = target.partition("?")
    return RequestHead(method, path.encode(), query.encode(), "1.1", (), {}, 0, True, False)


def test_nothing_else_is_open() -> None:
    """What no caller need be known for: what a browser asks first, and health where it is open."""
    probes = {"Check", "Watch", "ServerLive", "ServerReady", "ModelReady"}
    for is_open, verbs, rpcs in ((True, {"health"}, probes), (False, set(), set())):
        found = rights.needs(rights.REST, open_health=is_open)
        assert open_in(found) == {"preflight", ALIVE, page.FILE, *verbs}
        found = rights.needs(rights.RPC, open_health=is_open)
        assert {name.rpartition("/")[2] for name in open_in(found)} == rpcs


def open_in(table: Mapping[str, Need]) -> set[str]:
    return {name for name, need in table.items() if need.right is None}


def test_routes_that_change_the_server_are_for_administrators() -> None:
    changing = {name for name, need in rights.REST.items() if need.right is Right.ADMINISTRATE}
    assert changing == {"poll", "reload", "labels", "set_log_level"}
