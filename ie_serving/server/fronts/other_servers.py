"""Adds the routes of other servers (`compat/`) before the REST API if the settings ask for them.

Routes that the settings do not ask for are not imported.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar, cast

from ie_serving.config.settings import Settings
from ie_serving.core.compat import added
from ie_serving.core.runtime.threads import let_go
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served_models import ServedModels
from ie_serving.server.fronts.rest.replies import refusal
from ie_serving.server.fronts.rest.routes import Routes, VerbOf
from ie_serving.server.fronts.tfs.rest import RestApi
from ie_serving.server.fronts.tfs.rest_interface import rest_interface
from ie_serving.server.fronts.tfs.rest_routes import wanting
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.messages import AnyReply, App, Reply, Request

FoundT = TypeVar("FoundT")


class AppChain(NamedTuple):
    """The application that answers every request, and the function that classifies requests."""

    answer: App
    wanted: VerbOf

    def behind(self, routes: Routes[Any]) -> "AppChain":
        """Return this front with `routes` before it."""
        return AppChain(routes.before(self.answer), routes.wanted(self.wanted))


class RestParts(NamedTuple):
    """The objects that routes are built from.

    Attributes:
        settings: decide which routes exist.
        api: TensorFlow Serving's REST API.
        plane: runs the models.
        served: the models.
        interface: interface of `api`.
        secure: callers connect by TLS.
    """

    settings: Settings
    api: RestApi
    plane: DataPlane
    served: ServedModels
    interface: Interface[Octets]
    secure: bool


AddRoutes = Callable[[AppChain, RestParts], AppChain]
"""Puts routes before a front; returns the front unchanged if the settings ask for none."""


class OtherFront(ABC, Generic[FoundT]):
    """The front end of another server's routes, which ends each reply as the REST API does.

    Args of the constructor:
        parts: parts of the REST port.
    """

    def __init__(self, parts: RestParts) -> None:
        self._api, self._plane, self._interface = parts.api, parts.plane, parts.interface
        self._server = parts.settings.server

    async def answer(self, request: Request, found: FoundT) -> AnyReply:
        """See `fronts.rest.routes.Front`."""
        try:
            reply = await self._reply(request, found)
        except Exception as error:
            reply = self._refusal(error)
        except asyncio.CancelledError as error:
            let_go(error)
            raise
        return await self._api.finished(request.head, reply)

    @abstractmethod
    async def _reply(self, request: Request, found: FoundT) -> Reply:
        """Answer a request; whatever it raises becomes a refusal."""

    def _refusal(self, error: Exception) -> Reply:
        """Phrase an error."""
        return refusal(error)


def front_of(
    settings: Settings, api: RestApi, plane: DataPlane, served: ServedModels, *, secure: bool
) -> AppChain:
    """Put the wanted routes before the REST API. Arguments: see `RestParts`."""
    interface = rest_interface(limit_s=settings.server.rest_timeout_s)
    parts = RestParts(settings, api, plane, served, interface, secure)
    chain = AppChain(api.answer, wanting(settings.server.metrics_paths))
    for add in added("routes"):
        chain = cast("AddRoutes", add)(chain, parts)
    return chain
