"""Where SageMaker's routes join the server. See `core.compat.Additions`."""

from typing import TYPE_CHECKING

from ie_serving.server.fronts.rest.routes import Routes

if TYPE_CHECKING:
    from ie_serving.server.fronts.other_servers import Chain, RestParts


def with_routes(chain: "Chain", parts: "RestParts") -> "Chain":
    """Put the routes before `chain` where a model answers invocations."""
    server = parts.settings.server
    if not server.invocations_model:
        return chain
    from ie_serving.compat.sagemaker.routes import VERB, SageMakerRoutes, asked

    model, most = server.invocations_model, server.max_message_bytes

    def made() -> SageMakerRoutes:
        return SageMakerRoutes(parts.api, parts.plane, parts.interface, model, max_body_bytes=most)

    return chain.behind(Routes(asked, lambda _: (VERB, ""), made))
