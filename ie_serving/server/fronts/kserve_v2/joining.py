"""Builds the REST routes of the Open Inference Protocol for the composition root."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ie_serving.config.settings import ServerSettings
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.admin.model_control import ModelControl
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.server.fronts.kserve_v2.routes import Asked, asked, verb_of
from ie_serving.server.fronts.rest.routes import Front, Routes
from ie_serving.telemetry.metrics.page import Metrics

if TYPE_CHECKING:
    from ie_serving.server.fronts.kserve_v2.management import MakeManagement, Management

HandOn = Callable[[Interface[Any]], Interface[Any]]


def management(control: ModelControl, log: LogPages, server: ServerSettings) -> "MakeManagement":
    """Return what makes the answers to all but inferences, over the models of a caller."""

    def made(served: ServedModels) -> "Management":
        from ie_serving.server.fronts.kserve_v2.management import Management
        from ie_serving.server.fronts.kserve_v2.repository import Repository
        from ie_serving.server.fronts.kserve_v2.server_settings import ServerSettingCalls

        repository = Repository(served, control, server.reload_by_rpc)
        return Management(repository, ServerSettingCalls(log, server.traces_url))

    return made


def kserve_routes(
    over: tuple[DataPlane, ServedModels, Health, Metrics],
    server: ServerSettings,
    hand_on: HandOn,
    management: "Callable[[], Management]",
) -> Routes[Asked]:
    """Return the protocol's routes.

    Args:
        over: data plane, models, health of the server, and its metrics.
        server: limits, and the path of the metrics: at a path of this protocol, metrics win.
        hand_on: see `inference.observed.handing_on`.
        management: makes what answers all but inferences.
    """

    def made() -> Front[Asked]:
        from ie_serving.server.fronts.admin import cross_site
        from ie_serving.server.fronts.kserve_v2.front import KServeFront, Parts
        from ie_serving.server.fronts.kserve_v2.interface import interfaces

        found = interfaces(hand_on, limit_s=server.rest_timeout_s)
        check_site = partial(
            cross_site.check, any_site=server.enable_cors, open_to_all=not server.has_access
        )
        parts = Parts(*over, found, management(), check_site, server.max_message_bytes)
        return KServeFront(parts)

    return Routes(asked, verb_of, made, server.metrics_paths)
