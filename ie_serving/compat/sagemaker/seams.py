"""Where SageMaker's routes join the server. See `core.compat.Additions`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ie_serving.server.fronts.other_servers import Front, RestParts


def with_routes(front: "Front", parts: "RestParts") -> "Front":
    """Put the routes before `front` where a model answers invocations."""
    server = parts.settings.server
    if not server.invocations_model:
        return front
    from ie_serving.compat.sagemaker.routes import SageMakerRoutes

    routes = SageMakerRoutes(
        parts.api,
        parts.plane,
        parts.interface,
        server.invocations_model,
        front.answer,
        max_body_bytes=server.max_message_bytes,
    )
    return front.behind(routes)
