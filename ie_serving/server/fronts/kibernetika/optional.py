"""What kibernetika-serving answers beside this server's own: nothing, where no model is to.

So what a start without it imports is this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ie_serving.inference.plane import DataPlane
    from ie_serving.server.transport.grpc.services import Answer
    from ie_serving.server.transport.http1.messages import App


class AnsweringModel:
    """The one model that answers for all.

    Args of the constructor:
        name: its name; empty: there is none.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def grpc(self, answers: dict[str, Answer]) -> dict[str, Answer]:
        """Give the methods of a service, which then reach the model whatever name they say."""
        if not self._name:
            return answers
        from ie_serving.server.fronts.kibernetika.any_model import answering_for

        return answering_for(self._name, answers)

    def rest(self, app: App, plane: DataPlane, *, limit_s: float, max_body_bytes: int) -> App:
        """Put `POST /predict` in front of what answers requests over REST."""
        if not self._name:
            return app
        from ie_serving.server.fronts.kibernetika.predict import PredictRoute, predict_interface

        interface = predict_interface(limit_s=limit_s)
        route = PredictRoute(plane, interface, self._name, app, max_body_bytes=max_body_bytes)
        return route.answer
