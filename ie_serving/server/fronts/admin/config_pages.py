"""`/v1/config`: the states of all models, and the reload that a client asks for.

Source: OpenVINO Model Server, Config Status API and Config Reload API.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ie_serving.core.errors import DeadlineExceeded, Forbidden
from ie_serving.core.hints import Hint
from ie_serving.core.versions import VersionStatus
from ie_serving.wire.tfs import metadata

STATUS = "/v1/config"
RELOAD = "/v1/config/reload"
UNCHANGED, CHANGED = 200, 201

Statuses = Callable[[], Mapping[str, Sequence[VersionStatus]]]
"""Gives the versions of every model, highest first; none for one that has none."""
Reload = Callable[[], Awaitable[bool]]
"""Reloads, and tells whether anything changed. Raises ServingError."""


class ConfigPages:
    """Answers both.

    Args of the constructor:
        statuses, reload: what they show and do.
        reload_allowed: whether clients may reload.
        limit_s: longest time in seconds that a reload is waited for.
    """

    def __init__(
        self, statuses: Statuses, reload: Reload, *, reload_allowed: bool, limit_s: float
    ) -> None:
        self._statuses = statuses
        self._reload = reload
        self._reload_allowed = reload_allowed
        self._limit_s = limit_s

    def status(self) -> bytes:
        """Show every model."""
        return metadata.statuses_json(self._statuses())

    async def reload(self) -> tuple[int, bytes]:
        """Reload; give the HTTP status, which tells whether anything changed, and every model.

        Raises:
            Forbidden: it is switched off.
            DeadlineExceeded: it takes too long, and goes on.
            ServingError: it failed.
        """
        # Before anything is read: the faults of a reload quote the configuration file.
        if not self._reload_allowed:
            raise Forbidden(
                "reloads by request are switched off: change the configuration file",
                Hint(", or let clients ask for them with {server.reload_by_rpc}"),
            )
        return (CHANGED if await self._reloaded() else UNCHANGED), self.status()

    async def _reloaded(self) -> bool:
        """Reload; tell whether anything changed."""
        # What is cancelled is this request's wait: listings are shared with others who ask, and
        # loads belong to their models.
        try:
            return await asyncio.wait_for(self._reload(), self._limit_s)
        except asyncio.TimeoutError:
            raise DeadlineExceeded(
                f"the reload was not over within {self._limit_s:g} s; what it has begun goes on:"
                f" GET {STATUS} shows how far it is",
                Hint(", or raise {server.rest_timeout_s}"),
            ) from None
