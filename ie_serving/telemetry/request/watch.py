"""Who tells of requests: the access log, the traces, and `Server-Timing`.

Which requests have an entry: all of them where there is an access log, and over REST where there is
`Server-Timing`; else those alone whose trace is kept.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from ie_serving.telemetry.request.access_log import AccessLog
from ie_serving.telemetry.request.entry import Entry, now
from ie_serving.telemetry.request.parts import share
from ie_serving.telemetry.request.trace_context import Trace

Told = Callable[[Entry, Sequence[tuple[Entry, float]]], None]
"""Told of a batch that has ended; see `Watch.batch`."""


class Tracing(Protocol):
    """See `traces.Traces`."""

    def begin(self, name: str, parent: str, state: str) -> Trace | None:
        """Give the span of a request, by the headers that it came with; None: it is not kept."""

    def root(self) -> Trace:
        """Give a span that is part of no other."""

    def note(self, entry: Entry, links: Sequence[Trace] = ()) -> None:
        """Take the entry of a request, or of a batch with its requests, that has ended."""

    def close(self) -> None:
        """Send what waits, within a bounded time. Blocking."""


class Watch:
    """Those who tell of requests.

    Args of the constructor:
        log: gets a line for each request, if there is one.
        traces: get spans of some, if there are any.
        timing: replies over REST tell times.

    Attributes:
        timing: see above.
        logs: whether there is an access log: replies then have the request's id, where the client
            has sent one or the request has failed.
        every: whether every request over REST has an entry, and not those alone that are traced.
        trace: gives the span of a request, by its path, traceparent and tracestate, or None where
            it is not traced. None where nothing is.
    """

    def __init__(self, log: AccessLog | None, traces: Tracing | None, *, timing: bool) -> None:
        self._log = log
        self._traces = traces
        self.timing = timing
        self.logs = log is not None
        self.every = self.logs or timing
        self.trace = traces.begin if traces else None
        # Where there is only the log, without a call between.
        self.end = log.end if log and not traces else self._end

    def _end(self, entry: Entry) -> None:
        if self._log is not None:
            entry.named()  # the span and the line have the same
            self._log.end(entry)
        else:
            entry.ended = now()
        if entry.trace is not None and self._traces is not None:
            self._traces.note(entry)

    def batch(self, own: Entry, members: Sequence[tuple[Entry, float]]) -> None:
        """Tell of a batch that has ended.

        Args:
            own: has what was done for it.
            members: the requests, each with the time since which it was gathered.
        """
        own.ended = now()
        links = [entry.trace for entry, _ in members if entry.trace is not None]
        own.trace = self._traces.root() if self._traces and links else None
        share(own, members, own.trace)
        if own.trace is not None and self._traces is not None:
            self._traces.note(own, links)

    def close(self) -> None:
        """Write and send what waits, within a bounded time. Blocking."""
        if self._log is not None:
            self._log.close()
        if self._traces is not None:
            self._traces.close()
