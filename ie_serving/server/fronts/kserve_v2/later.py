"""The Open Inference Protocol v2 over REST, of which little is imported before somebody asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ie_serving.config.settings import ServerSettings
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.kserve_v2.routes import asked, verb_of
from ie_serving.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from ie_serving.server.fronts.kserve_v2.front import KServeFront, Poll
    from ie_serving.server.transport.http1.messages import Answer, App, Request, RequestHead

    HandOn = Callable[[Interface[Any]], Interface[Any]]
    Wanted = Callable[[RequestHead], tuple[str, str]]  # see `gate.rest_guard`


class LaterKServe:
    """The front end of one worker.

    Args of the constructor:
        over: data plane, models, how far the server is, and its metrics.
        server: limits, and where metrics are wanted: at a path of the protocol they stand there.
        hand_on: see `inference.noted.handing_on`.
        poll: gives what lists a model's repository, once that is there.
    """

    def __init__(
        self,
        over: tuple[DataPlane, ServedModels, Health, Metrics],
        server: ServerSettings,
        hand_on: HandOn,
        poll: Callable[[], Poll],
    ) -> None:
        self._over = over
        self._server = server
        self._hand_on = hand_on
        self._poll = poll
        self._taken = frozenset(path.encode() for path in server.metrics_paths)
        self._front: KServeFront | None = None

    def around(self, before: Callable[[App], App]) -> Callable[[App], App]:
        """Put the protocol in front of what `before` puts in front of the other pages."""
        return lambda app: self._first(before(app))

    def wanted(self, of_others: Wanted) -> Wanted:
        """Tell the gate what a request of the protocol asks for, else what `of_others` says."""

        def wanted(head: RequestHead) -> tuple[str, str]:
            own = None if head.path in self._taken else verb_of(head)
            return own or of_others(head)

        return wanted

    def _first(self, app: App) -> App:
        async def answer(request: Request) -> Answer:
            found = None if request.head.path in self._taken else asked(request.head)
            if found is None:
                return await app(request)
            if self._front is None:
                self._front = self._made()
            return await self._front.answer(request, found)

        return answer

    def _made(self) -> KServeFront:
        from ie_serving.server.fronts.kserve_v2.front import KServeFront, Parts
        from ie_serving.server.fronts.kserve_v2.interface import interfaces

        found = interfaces(self._hand_on, limit_s=self._server.rest_timeout_s)
        return KServeFront(Parts(*self._over, found, self._poll(), self._server.max_message_bytes))
