"""The page at `/`, of which nothing is imported or read before somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ie_serving.config.settings import Settings
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.page.parts import Parts
from ie_serving.server.fronts.page.routes import asked
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.metrics import Metrics
from ie_serving.telemetry.recent_errors import RecentErrors

if TYPE_CHECKING:
    from ie_serving.server.fronts.page.front import PageFront
    from ie_serving.server.transport.http1.messages import Answer, App, Request, RequestHead

    Wanted = Callable[[RequestHead], tuple[str, str]]  # see `gate.rest_guard`


class LaterPage:
    """The page of one worker; without `ServerSettings.page` it lets everything pass.

    The constructor takes what `Parts` has, and the metrics, which are told to keep what fails.
    """

    def __init__(
        self,
        settings: Settings,
        storage: StorageOptions,
        served: ServedModels,
        health: Health,
        metrics: Metrics,
    ) -> None:
        errors = RecentErrors(quotes=settings.server.has_access)
        self._parts = Parts(settings, storage, served, health, errors)
        # Where metrics are wanted at a path of the page, they stand there.
        self._taken = frozenset(path.encode() for path in settings.server.metrics_paths)
        self._front: PageFront | None = None
        self._is_on = settings.server.page
        if self._is_on:
            metrics.recent = errors

    def around(self, before: Callable[[App], App]) -> Callable[[App], App]:
        """Put the page in front of what `before` puts in front of the other pages."""
        return (lambda app: self._first(before(app))) if self._is_on else before

    def wanted(self, of_others: Wanted) -> Wanted:
        """Tell the gate what a request of the page asks for, else what `of_others` says."""
        return (lambda head: self._asked(head) or of_others(head)) if self._is_on else of_others

    def _asked(self, head: RequestHead) -> tuple[str, str] | None:
        return None if head.path in self._taken else asked(head)

    def _first(self, app: App) -> App:
        async def answer(request: Request) -> Answer:
            found = self._asked(request.head)
            if found is None:
                return await app(request)
            if self._front is None:
                from ie_serving.server.fronts.page.front import PageFront

                self._front = PageFront(self._parts)
            return await self._front.answer(request, *found)

        return answer
