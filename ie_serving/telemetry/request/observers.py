"""The observers of requests: access log, traces, and `Server-Timing`.

With an access log all requests have an entry, with `Server-Timing` all REST requests; otherwise
only requests whose trace is kept.
"""

from collections.abc import Sequence
from typing import Protocol

from ie_serving.telemetry.request.access_log import AccessLog
from ie_serving.telemetry.request.entry import Entry, now
from ie_serving.telemetry.request.parts import share
from ie_serving.telemetry.request.trace_context import Trace


class Tracing(Protocol):
    """See `traces.Traces`."""

    def begin(self, name: str, parent: str, state: str) -> Trace | None:
        """Return the span of a request, from its headers; None: its trace is not kept."""

    def root(self) -> Trace:
        """Return a span without a parent."""

    def note(self, entry: Entry, links: Sequence[Trace] = ()) -> None:
        """Take the ended entry of a request, or of a batch with its requests."""

    def close(self) -> None:
        """Send pending spans, within a bounded time. Blocking."""


class Watch:
    """Passes ended requests to their observers.

    Args of the constructor:
        log: writes a line for each request; None: no access log.
        traces: send spans of some requests; None: no traces.
        timing: REST replies have `Server-Timing`.

    Attributes:
        timing: see above.
        logs: whether there is an access log: replies then have the request's id, if the client has
            sent one or the request has failed.
        every: whether every REST request has an entry, and not only traced ones.
        trace: returns the span of a request, from its path, traceparent and tracestate, or None if
            it is not traced. None if there are no traces.
    """

    def __init__(self, log: AccessLog | None, traces: Tracing | None, *, timing: bool) -> None:
        self._log = log
        self._traces = traces
        self.timing = timing
        self.logs = log is not None
        self.every = self.logs or timing
        self.trace = traces.begin if traces else None
        # With the log alone, bound directly to save a call.
        self.end = log.end if log and not traces else self._end

    def _end(self, entry: Entry) -> None:
        if self._log is not None:
            entry.named()  # span and log line have the same id
            self._log.end(entry)
        else:
            entry.ended = now()
        if entry.trace is not None and self._traces is not None:
            self._traces.note(entry)

    def batch(self, own: Entry, members: Sequence[tuple[Entry, float]]) -> None:
        """Report a batch that has ended.

        Args:
            own: entry of the batch, with its parts.
            members: entries of the requests, each with the time at which it was queued.
        """
        own.ended = now()
        links = [entry.trace for entry, _ in members if entry.trace is not None]
        own.trace = self._traces.root() if self._traces and links else None
        share(own, members, own.trace)
        if own.trace is not None and self._traces is not None:
            self._traces.note(own, links)

    def close(self) -> None:
        """Write and send pending data, within a bounded time. Blocking."""
        if self._log is not None:
            self._log.close()
        if self._traces is not None:
            self._traces.close()
