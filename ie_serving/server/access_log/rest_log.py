"""An application whose requests stand in the access log, and whose replies have a request id.

It stands in front of the application only where the log is on. What is no request, and so is
refused by the protocol, does not come here.
"""

import asyncio
from typing import Final

from ie_serving.core.codes import ENDED
from ie_serving.server.transport.http1.messages import Answer, App, Reply, Request, Switch
from ie_serving.telemetry.access_log import CURRENT, AccessLog, Entry
from ie_serving.telemetry.request_id import HEADER

_HEADER: Final = HEADER.encode()
CANCELLED: Final = 499
"""nginx's code of a request whose client has left, or that was cut at the end of a drain."""
FAILED: Final = 500


class LoggedApp:
    """Answers as the application does."""

    def __init__(self, app: App, log: AccessLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, request: Request) -> Answer:
        """See `messages.App`."""
        head, body = request.head, request.body
        entry = Entry(
            self._log.ids.of(head.fields.get(_HEADER)),
            request.ends.client,
            "REST",
            head.method,
            head.path.decode("latin-1"),
        )
        # A body that comes in pieces may be announced by its length all the same.
        entry.received = head.length if body is None else len(body)
        CURRENT.set(entry)
        try:
            reply = await self._app(request)
            entry.code, entry.sent = reply.status, len(reply.body)
        except ENDED as error:
            entry.code = CANCELLED if isinstance(error, asyncio.CancelledError) else FAILED
            raise
        finally:
            self._log.note(entry)
        if isinstance(reply, Switch):
            return reply._replace(headers=(*reply.headers, (_HEADER, entry.id.encode())))
        return Reply(reply.status, (*reply.headers, (_HEADER, entry.id.encode())), reply.body)
