"""Puts those who tell of requests in front of what answers; where nobody does, nothing is there.

They are the access log, the traces and `Server-Timing`: see `telemetry/request/watch.py`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ie_serving.server.transport.grpc.services import Admission, Services
from ie_serving.telemetry.metrics.inferences import Inferences
from ie_serving.telemetry.request.access_log import AccessLog
from ie_serving.telemetry.request.watch import Told, Tracing, Watch

if TYPE_CHECKING:  # a worker imports what a port needs when that port is on
    from ie_serving.server.transport.grpc.call import UnaryCall
    from ie_serving.server.transport.grpc.conversation import StreamingCall
    from ie_serving.server.transport.http1.messages import App
    from ie_serving.server.transport.http1.server import Connect
    from ie_serving.telemetry.request.parts import Record


class OptionalWatch:
    """Those who tell of the requests of a worker.

    Args of the constructor:
        target: file of the access log, or `-` for standard output; empty: there is none.
        form: of its lines, `text` or `json`.
        traces: URL that spans are posted to; empty: nothing is traced.
        timing: replies over REST tell times.

    Raises:
        ServingError: the file cannot be opened.
    """

    def __init__(self, target: str, form: str, traces: str = "", timing: bool = False) -> None:
        log = AccessLog(target, form) if target else None
        watch = Watch(log, _tracing(traces), timing=timing)
        self._watch = watch if target or traces or timing else None
        # `Server-Timing` exists over REST only: alone, it needs no entries of gRPC calls.
        self._calls = watch if target or traces else None
        self._parts = bool(traces or timing)

    def rest(self, app: App, *, secure: bool = False) -> tuple[App, Connect]:
        """Give what answers requests over REST, and what carries them."""
        from ie_serving.server.transport.http1.connection import Connection

        if self._watch is None:
            return app, Connection
        from ie_serving.server.access_log.rest_log import PartsApp, ToldApp, ToldConnection

        kind = PartsApp if self._parts else ToldApp
        told = kind(app, self._watch, secure=secure)
        # The method, not an object with `__call__`, which takes a call more.
        return told.answer, partial(ToldConnection, self._watch)

    def grpc(
        self, services: Services, admission: Admission | None
    ) -> tuple[Services, Admission | None]:
        """Give what answers calls; where callers are asked who they are, `admission` chooses it."""
        if self._calls is None:
            return services, admission
        from ie_serving.server.access_log.grpc_log import LoggedAdmission, logged

        if admission is None:
            return logged(services, self._calls), None
        return services, LoggedAdmission(admission, self._calls)

    def calls(self) -> tuple[type[UnaryCall], type[StreamingCall]]:
        """Give what carries calls over the own HTTP/2: of one message, and of streams of them."""
        from ie_serving.server.transport.grpc.call import UnaryCall
        from ie_serving.server.transport.grpc.conversation import StreamingCall

        if self._calls is None:
            return UnaryCall, StreamingCall
        from ie_serving.server.access_log import grpc_log

        if self._calls.trace is None:
            return grpc_log.ToldCall, grpc_log.ToldConversation
        return grpc_log.TracedCall, grpc_log.TracedConversation

    def record(self, model: str, version: int) -> Inferences:
        """Begin the record of the inferences of a version."""
        if not self._parts:
            return Inferences()
        from ie_serving.telemetry.request.parts import Noting

        return Noting(model, version)

    def steps(self, record: Record) -> Record:
        """Give what is told of each step of a graph."""
        if not self._parts:
            return record
        from ie_serving.telemetry.request.parts import of_steps

        return of_steps(record)

    @property
    def batches(self) -> Told | None:
        """Give what is told of each batch of requests; None where nobody wants to know."""
        return self._watch.batch if self._watch is not None and self._parts else None

    async def close(self) -> None:
        """Write and send what waits, within a bounded time."""
        if self._watch is not None:
            await asyncio.to_thread(self._watch.close)


def _tracing(endpoint: str) -> Tracing | None:
    if not endpoint:
        return None
    # Here: the library takes a tenth of a second, and some 10 MB.
    from ie_serving.telemetry.trace.traces import Traces

    return Traces(endpoint)
