"""Amazon SageMaker: what it asks of a container, started by `ie_serving serve`."""

from typing import TYPE_CHECKING

from ie_serving.core.compat import Additions

if TYPE_CHECKING:
    from ie_serving.server.fronts.other_servers import AppChain, RestParts


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        words={"serve": f"{__name__}.container:parse"}, routes=f"{__name__}:with_routes"
    )


def with_routes(chain: "AppChain", parts: "RestParts") -> "AppChain":
    """Put the routes before `chain` where a model answers invocations."""
    if not parts.settings.server.invocations_model:
        return chain
    from ie_serving.compat.sagemaker.routes import VERB, SageMakerRoutes, asked
    from ie_serving.server.fronts.rest.routes import Routes

    return chain.behind(Routes(asked, lambda _: (VERB, ""), lambda: SageMakerRoutes(parts)))
