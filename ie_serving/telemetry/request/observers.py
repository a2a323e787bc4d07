"""The observers of requests (access log, traces, `Server-Timing`), and what they observe.

With an access log all requests have an entry, with `Server-Timing` all REST requests; otherwise
only requests whose trace is kept. If traces or `Server-Timing` are on, `ObservedInferences` takes
the place of the plain record of a version: it adds the parts of a request to its entry, which are
inferences, steps of a graph and shared batches. The times are those that the metrics count.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ie_serving.telemetry.metrics.inferences import Inferences
from ie_serving.telemetry.request.access_log import AccessLog
from ie_serving.telemetry.request.entry import (
    CURRENT,
    MOST_PARTS,
    RequestEntry,
    RequestPart,
    current,
    now,
)
from ie_serving.telemetry.request.trace_context import Trace


class Tracing(Protocol):
    """See `traces.Traces`."""

    def begin(self, name: str, parent: str, state: str) -> Trace | None:
        """Return the span of a request, from its headers; None: its trace is not kept."""

    def root(self) -> Trace:
        """Return a span without a parent."""

    def note(self, entry: RequestEntry, links: Sequence[Trace] = ()) -> None:
        """Take the ended entry of a request, or of a batch with its requests."""

    def close(self) -> None:
        """Send pending spans, within a bounded time. Blocking."""


class RequestWatch:
    """Passes ended requests to their observers.

    Args of the constructor:
        log: writes a line for each request; None: no access log.
        traces: send spans of some requests; None: no traces.
        timing: REST replies have `Server-Timing`.

    Attributes:
        timing: whether REST replies have `Server-Timing`.
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
        # The log alone is bound directly, to save a call.
        self.end = log.end if log and not traces else self._end

    def _end(self, entry: RequestEntry) -> None:
        if self._log is not None:
            entry.named()  # span and log line have the same id
            self._log.end(entry)
        else:
            entry.ended = now()
        if entry.trace is not None and self._traces is not None:
            self._traces.note(entry)

    def batch(self, own: RequestEntry, members: Sequence[tuple[RequestEntry, float]]) -> None:
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


if TYPE_CHECKING:
    _Floats = array[float]
else:  # before Python 3.12 `array` takes no type parameter
    _Floats = array


class ObservedInferences(Inferences):
    """The record of one version that also adds inferences to the entries of their requests.

    Args of the constructor:
        model, version: model and version of the record.
    """

    def __init__(self, model: str, version: int) -> None:
        super().__init__()
        ran = self.ran = self._durations.noted = _ContextDurations("d")
        ran.model, ran.version = model, version

    def waited(self, seconds: float) -> None:
        """See `Inferences`; called right after the inference was appended to `ran`."""
        super().waited(seconds)
        entry = current() if seconds else None
        # No part is added beyond the limit, so the last one may be another inference.
        if entry is not None and entry.parts and len(entry.parts) < MOST_PARTS:
            entry.parts[-1] = entry.parts[-1]._replace(waited_s=seconds)


class _ContextDurations(_Floats):
    """Receives the seconds of each inference, in the context of the calling request."""

    model: str
    version: int

    def append(self, seconds: float, /) -> None:
        """See `Inferences.ran`. Inferences of requests without entries pass here, too."""
        super().append(seconds)
        entry = CURRENT.get()
        if entry is not None and entry.parts is not None and not entry.ended:
            # A lane calls this later, after its thread has read the outputs.
            ended = entry.inferred or now()
            began = ended - seconds
            entry.add(RequestPart("infer", self.model, self.version, began, ended))


RecordPart = Callable[[str, float], None]
"""Called for each successful run of a step, with the seconds that it took."""


def of_steps(record: RecordPart) -> RecordPart:
    """Give what records a step as `record` does, and adds it to the entry of its request."""

    def noted(step: str, seconds: float) -> None:
        record(step, seconds)
        entry = current()
        if entry is not None and entry.parts is not None:
            ended = entry.inferred or now()  # the last step is reported after the reply
            entry.add(RequestPart("step", step, None, ended - seconds, ended))

    return noted


def share(
    own: RequestEntry, members: Sequence[tuple[RequestEntry, float]], trace: Trace | None
) -> None:
    """Add the parts of a batch to the entries of its requests.

    Args:
        own: entry of the batch.
        members: entries of the requests, each with the time at which it was queued.
        trace: the span of the batch.
    """
    for entry, since in members:
        for part in own.parts or () if not entry.ended else ():
            entry.add(part._replace(waited_s=part.began - since, batch=trace))
