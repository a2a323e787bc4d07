"""Adds the routes of other servers (`compat/`) before the REST API if the settings ask for them.

Routes that the settings do not ask for are not imported.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ie_serving.config.settings import Settings
from ie_serving.core.compat import added
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.rest.routes import Routes, Wanted
from ie_serving.server.fronts.tfs.rest import RestApi
from ie_serving.server.fronts.tfs.rest_interface import rest_interface
from ie_serving.server.fronts.tfs.rest_routes import wanting
from ie_serving.server.transport.http1.messages import App, Buffer


class Chain(NamedTuple):
    """The application that answers every request, and the function that classifies requests."""

    answer: App
    wanted: Wanted

    def behind(self, routes: Routes[Any]) -> "Chain":
        """Return this front with `routes` before it."""
        return Chain(routes.before(self.answer), routes.wanted(self.wanted))


class RestParts(NamedTuple):
    """The objects that routes are built from.

    Attributes:
        settings: decide which routes exist.
        api: TensorFlow Serving's REST API.
        plane: runs the models.
        served: the models.
        interface: of `api`.
        secure: callers connect by TLS.
    """

    settings: Settings
    api: RestApi
    plane: DataPlane
    served: ServedModels
    interface: Interface[Buffer]
    secure: bool


AddRoutes = Callable[[Chain, RestParts], Chain]
"""Puts routes before a front; returns the front unchanged if the settings ask for none."""


def front_of(
    settings: Settings, api: RestApi, plane: DataPlane, served: ServedModels, *, secure: bool
) -> Chain:
    """Put the wanted routes before the REST API. Arguments: see `RestParts`."""
    interface = rest_interface(limit_s=settings.server.rest_timeout_s)
    parts = RestParts(settings, api, plane, served, interface, secure)
    chain = Chain(api.answer, wanting(settings.server.metrics_paths))
    for add in added("routes"):
        chain = cast("AddRoutes", add)(chain, parts)
    return chain
