"""kibernetika-serving: its command, chains of models with hooks, and `POST /predict`."""

from typing import TYPE_CHECKING

from ie_serving.app.main import as_other
from ie_serving.core.compat import Additions

if TYPE_CHECKING:
    from ie_serving.engines.base import Engine, EngineOptions
    from ie_serving.server.fronts.other_servers import AppChain, RestParts


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        around=f"{__name__}:around",
        routes=f"{__name__}:with_routes",
        one_model=f"{__name__}.any_model:answering_for",
    )


def main() -> int:
    """Run as `kibernetika-serving` and `kserving` do; return the exit code."""
    return as_other("kibernetika-serving", f"{__name__}.dialect:parse")


def around(engine: "Engine", options: "EngineOptions") -> "Engine":
    """Put hooks around `engine`, the outermost layer: tensors of hooks share batches, too."""
    from ie_serving.compat.kibernetika.hooks import ChainEngine, HookEngine
    from ie_serving.engines.kernels import HookOptions

    hooked = HookEngine(engine)
    return ChainEngine(hooked) if options.of(HookOptions).chain else hooked


def with_routes(chain: "AppChain", parts: "RestParts") -> "AppChain":
    """Put the route before `chain` where one model answers all."""
    server = parts.settings.server
    if not server.answering_model:
        return chain
    from ie_serving.compat.kibernetika.predict_route import VERB, PredictRoute, asked
    from ie_serving.server.fronts.rest.routes import Routes

    verb = VERB, server.answering_model
    return chain.behind(Routes(asked, lambda _: verb, lambda: PredictRoute(parts)))
