"""Puts the access log in front of what answers; where it is off, nothing stands there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ie_serving.server.transport.grpc.services import Admission, Services
from ie_serving.telemetry.access_log import AccessLog

if TYPE_CHECKING:  # a worker imports what a port needs when that port is on
    from ie_serving.server.transport.grpc.call import UnaryCall
    from ie_serving.server.transport.http1.messages import App


class OptionalLog:
    """The access log of a worker.

    Args of the constructor:
        target: file, or `-` for standard output; empty: nothing is logged.
        form: of the lines, `text` or `json`.

    Raises:
        ServingError: the file cannot be opened.
    """

    def __init__(self, target: str, form: str) -> None:
        self._log = AccessLog(target, form) if target else None

    def rest(self, app: App) -> App:
        """Give what answers requests over REST."""
        if self._log is None:
            return app
        from ie_serving.server.access_log.rest_log import LoggedApp

        return LoggedApp(app, self._log)

    def grpc(
        self, services: Services, admission: Admission | None
    ) -> tuple[Services, Admission | None]:
        """Give what answers calls; where callers are asked who they are, `admission` chooses it."""
        if self._log is None:
            return services, admission
        from ie_serving.server.access_log.grpc_log import LoggedAdmission, logged

        if admission is None:
            return logged(services, self._log), None
        return services, LoggedAdmission(admission, self._log)

    def unary(self) -> type[UnaryCall]:
        """Give what carries a call over the own HTTP/2."""
        from ie_serving.server.access_log.grpc_log import LoggedCall
        from ie_serving.server.transport.grpc.call import UnaryCall

        return UnaryCall if self._log is None else LoggedCall

    async def close(self) -> None:
        """Write what waits, within a bounded time."""
        if self._log:
            await asyncio.to_thread(self._log.close)
