"""Where SageMaker's routes join the server. See `core.compat.Additions`."""

from typing import TYPE_CHECKING

from ie_serving.server.fronts.rest.routes import Routes

if TYPE_CHECKING:
    from ie_serving.server.fronts.other_servers import Chain, RestParts


def with_routes(chain: "Chain", parts: "RestParts") -> "Chain":
    """Put the routes before `chain` where a model answers invocations."""
    if not parts.settings.server.invocations_model:
        return chain
    from ie_serving.compat.sagemaker.routes import VERB, SageMakerRoutes, asked

    return chain.behind(Routes(asked, lambda _: (VERB, ""), lambda: SageMakerRoutes(parts)))
