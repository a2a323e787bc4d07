"""Builds the REST routes of the Open Inference Protocol for the composition root."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ie_serving.config.settings import ServerSettings
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.kserve_v2.routes import Asked, asked, verb_of
from ie_serving.server.fronts.rest.routes import Front, Routes
from ie_serving.telemetry.metrics.page import Metrics

if TYPE_CHECKING:
    from ie_serving.server.fronts.kserve_v2.front import Poll

HandOn = Callable[[Interface[Any]], Interface[Any]]


def kserve_routes(
    over: tuple[DataPlane, ServedModels, Health, Metrics],
    server: ServerSettings,
    hand_on: HandOn,
    poll: "Callable[[], Poll]",
) -> Routes[Asked]:
    """Return the protocol's routes.

    Args:
        over: data plane, models, health of the server, and its metrics.
        server: limits, and the path of the metrics: at a path of this protocol, metrics win.
        hand_on: see `inference.observed.handing_on`.
        poll: returns the function that lists a model's repository, once it exists.
    """

    def made() -> Front[Asked]:
        from ie_serving.server.fronts.kserve_v2.front import KServeFront, Parts
        from ie_serving.server.fronts.kserve_v2.interface import interfaces

        found = interfaces(hand_on, limit_s=server.rest_timeout_s)
        return KServeFront(Parts(*over, found, poll(), server.max_message_bytes))

    return Routes(asked, verb_of, made, server.metrics_paths)
