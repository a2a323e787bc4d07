"""Wraps applications and services with the observers of requests, if there are any.

Observers are the access log, the traces and `Server-Timing`: see `telemetry/request/observers.py`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ie_serving.server.transport.grpc.services import CallAdmission, Services
from ie_serving.telemetry.metrics.inferences import Inferences
from ie_serving.telemetry.request.access_log import AccessLog
from ie_serving.telemetry.request.entry import ReportBatch
from ie_serving.telemetry.request.observers import RequestWatch, Tracing

if TYPE_CHECKING:  # modules of a port are imported only if that port is on
    from ie_serving.server.transport.grpc.call import UnaryCall
    from ie_serving.server.transport.grpc.conversation import StreamingCall
    from ie_serving.server.transport.http1.messages import App
    from ie_serving.server.transport.http1.server import MakeConnection
    from ie_serving.telemetry.request.observers import RecordPart


class OptionalWatch:
    """The observers of the requests of a worker.

    Args of the constructor:
        target: file of the access log, or `-` for standard output; empty: no access log.
        form: form of its lines, `text` or `json`.
        traces: URL that spans are posted to; empty: no traces.
        timing: REST replies have `Server-Timing`.

    Raises:
        ServingError: the file cannot be opened.
    """

    def __init__(self, target: str, form: str, traces: str = "", timing: bool = False) -> None:
        log = AccessLog(target, form) if target else None
        watch = RequestWatch(log, _tracing(traces), timing=timing)
        self._watch = watch if target or traces or timing else None
        # `Server-Timing` exists over REST only: if it is alone, gRPC calls need no entries.
        self._calls = watch if target or traces else None
        self._parts = bool(traces or timing)

    def rest(self, app: App, *, secure: bool = False) -> tuple[App, MakeConnection]:
        """Return the application for REST requests, and the class of their connections."""
        from ie_serving.server.transport.http1.connection import Http1Connection

        if self._watch is None:
            return app, Http1Connection
        from ie_serving.server.access_log.rest_log import ObservedApp, ObservedConnection, PartsApp

        kind = PartsApp if self._parts else ObservedApp
        told = kind(app, self._watch, secure=secure)
        # A bound method, since calling an object with `__call__` costs one more call.
        return told.answer, partial(ObservedConnection, self._watch)

    def grpc(
        self, services: Services, admission: CallAdmission | None
    ) -> tuple[Services, CallAdmission | None]:
        """Wrap services and admission; `admission` is None unless callers are authenticated."""
        if self._calls is None:
            return services, admission
        from ie_serving.server.access_log.grpc_log import LoggedAdmission, logged

        if admission is None:
            return logged(services, self._calls), None
        return services, LoggedAdmission(admission, self._calls)

    def calls(self) -> tuple[type[UnaryCall], type[StreamingCall]]:
        """Return the classes for unary and streaming calls over the own HTTP/2."""
        from ie_serving.server.transport.grpc.call import UnaryCall
        from ie_serving.server.transport.grpc.conversation import StreamingCall

        if self._calls is None:
            return UnaryCall, StreamingCall
        from ie_serving.server.access_log import grpc_log

        if self._calls.trace is None:
            return grpc_log.ObservedCall, grpc_log.ObservedConversation
        return grpc_log.TracedCall, grpc_log.TracedConversation

    def record(self, model: str, version: int) -> Inferences:
        """Start the record of the inferences of a version."""
        if not self._parts:
            return Inferences()
        from ie_serving.telemetry.request.observers import ObservedInferences

        return ObservedInferences(model, version)

    def steps(self, record: RecordPart) -> RecordPart:
        """Return the record that observes each step of a graph."""
        if not self._parts:
            return record
        from ie_serving.telemetry.request.observers import of_steps

        return of_steps(record)

    @property
    def batches(self) -> ReportBatch | None:
        """Return the observer of each batch of requests; None if there is none."""
        return self._watch.batch if self._watch is not None and self._parts else None

    async def close(self) -> None:
        """Write and send pending data, within a bounded time."""
        if self._watch is not None:
            await asyncio.to_thread(self._watch.close)


def _tracing(endpoint: str) -> Tracing | None:
    if not endpoint:
        return None
    # Imported here: the library takes 0.1 s to import, and some 10 MB.
    from ie_serving.telemetry.trace.traces import Traces

    return Traces(endpoint)
