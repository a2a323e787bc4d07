"""Puts the routes of simple_tensorflow_serving before TensorFlow Serving's, if they are wanted."""

from typing import Final, NamedTuple

from ie_serving.config.settings import ServerSettings
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.stfs.routes import Wanted, wanting
from ie_serving.server.fronts.tfs import rest_routes
from ie_serving.server.fronts.tfs.rest import RestApi
from ie_serving.server.transport.http1.messages import App

NAME: Final = "stfs"
"""Value of `ServerSettings.old_front`."""


class Front(NamedTuple):
    """What answers, and what tells the gate what is asked."""

    answer: App
    wanted: Wanted


def beside(
    api: RestApi,
    plane: DataPlane,
    served: ServedModels,
    server: ServerSettings,
    *,
    secure: bool,
) -> Front:
    """Give `api` as it is, or with the old routes before it."""
    wanted = rest_routes.wanting(server.metrics_paths, server.invocations_model)
    if server.old_front != NAME:
        return Front(api.answer, wanted)
    # Here, not above: what nobody uses is not imported.
    from ie_serving.server.fronts.stfs.front import StfsFront

    front = StfsFront(
        api,
        plane,
        served,
        limit_s=server.rest_timeout_s,
        max_body_bytes=server.max_message_bytes,
        secure=secure,
    )
    return Front(front.answer, wanting(wanted))
