"""Where kibernetika-serving's parts join the server. See `core.compat.Additions`."""

from typing import TYPE_CHECKING

from ie_serving.compat.kibernetika.hooks.engine import Chained, WithHooks
from ie_serving.engines.base import Engine, EngineOptions
from ie_serving.engines.hooks import HookOptions

if TYPE_CHECKING:
    from ie_serving.server.fronts.other_servers import Front, RestParts


def around(engine: Engine, options: EngineOptions) -> Engine:
    """Put hooks around `engine`, which is outermost: what they give shares batches, too."""
    hooked = WithHooks(engine)
    return Chained(hooked) if options.of(HookOptions).chain else hooked


def with_routes(front: "Front", parts: "RestParts") -> "Front":
    """Put the route before `front` where one model answers all."""
    server = parts.settings.server
    if not server.answering_model:
        return front
    from ie_serving.compat.kibernetika.predict_route import PredictRoute, predict_interface

    route = PredictRoute(
        parts.api,
        parts.plane,
        predict_interface(limit_s=server.rest_timeout_s),
        server.answering_model,
        front.answer,
        max_body_bytes=server.max_message_bytes,
    )
    return front.behind(route)
