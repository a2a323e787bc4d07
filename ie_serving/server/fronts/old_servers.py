"""Routes of other servers, put before the REST API where somebody may ask them.

What a server is not started for is not imported.
"""

from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

from ie_serving.config.settings import STFS, Settings
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.tfs.rest import RestApi
from ie_serving.server.fronts.tfs.rest_interface import rest_interface
from ie_serving.server.fronts.tfs.rest_routes import Wanted, wanting
from ie_serving.server.transport.http1.messages import Answer, App, Request, RequestHead


class Routes(Protocol):
    """Routes of one server, before those of others."""

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """Answer one request, also one for the others. See `http1.messages.App`."""

    def asked(self, head: RequestHead) -> tuple[str, str] | None:
        """Tell the verb and the model of a request; None where it is for the others."""


class Front(NamedTuple):
    """What answers every request, and what tells the gate what each asks for."""

    answer: App
    wanted: Wanted

    def behind(self, routes: Routes) -> "Front":
        """Give this front with `routes` before it."""

        def wanted(head: RequestHead) -> tuple[str, str]:
            return routes.asked(head) or self.wanted(head)

        return Front(routes.answer, wanted)


def front_of(
    settings: Settings, api: RestApi, plane: DataPlane, served: ServedModels, *, secure: bool
) -> Front:
    """Put the routes that the settings ask for before the REST API.

    Args:
        settings: say which.
        api: TensorFlow Serving's.
        plane: runs the models.
        served: the models.
        secure: callers come by TLS.
    """
    server = settings.server
    limit_s, most = server.rest_timeout_s, server.max_message_bytes
    front = Front(api.answer, wanting(server.metrics_paths))
    if server.old_front == STFS:
        from ie_serving.compat.stfs.front.front import StfsFront

        stfs = StfsFront(api, plane, served, limit_s=limit_s, max_body_bytes=most, secure=secure)
        front = front.behind(stfs)
    if settings.engine.allow_python:  # without it no package of EDI is run
        from ie_serving.compat.edi.routes import EdiRoutes

        front = front.behind(EdiRoutes(api, front.answer))
    if any(model.is_konduit for model in settings.models):
        from ie_serving.compat.konduit.routes import KonduitRoutes

        rest = rest_interface(limit_s=limit_s)
        front = front.behind(KonduitRoutes(api, plane, rest, front.answer, max_body_bytes=most))
    if model := server.invocations_model:
        from ie_serving.compat.sagemaker.routes import SageMakerRoutes

        rest = rest_interface(limit_s=limit_s)
        invocations = SageMakerRoutes(api, plane, rest, model, front.answer, max_body_bytes=most)
        front = front.behind(invocations)
    if model := server.answering_model:
        from ie_serving.compat.kibernetika.predict_route import PredictRoute, predict_interface

        interface = predict_interface(limit_s=limit_s)
        route = PredictRoute(api, plane, interface, model, front.answer, max_body_bytes=most)
        front = front.behind(route)
    return front
