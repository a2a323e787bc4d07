"""Where kibernetika-serving's parts join the server. See `core.compat.Additions`."""

from typing import TYPE_CHECKING

from ie_serving.compat.kibernetika.hooks.engine import Chained, WithHooks
from ie_serving.engines.base import Engine, EngineOptions
from ie_serving.engines.hooks import HookOptions
from ie_serving.server.fronts.rest.routes import Routes

if TYPE_CHECKING:
    from ie_serving.server.fronts.other_servers import Chain, RestParts


def around(engine: Engine, options: EngineOptions) -> Engine:
    """Put hooks around `engine`, the outermost layer: tensors of hooks share batches, too."""
    hooked = WithHooks(engine)
    return Chained(hooked) if options.of(HookOptions).chain else hooked


def with_routes(chain: "Chain", parts: "RestParts") -> "Chain":
    """Put the route before `chain` where one model answers all."""
    server = parts.settings.server
    if not server.answering_model:
        return chain
    from ie_serving.compat.kibernetika.predict_route import VERB, PredictRoute, asked

    verb = VERB, server.answering_model
    return chain.behind(Routes(asked, lambda _: verb, lambda: PredictRoute(parts)))
