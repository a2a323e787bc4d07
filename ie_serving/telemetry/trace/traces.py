"""OpenTelemetry: decides which requests are traced, and sends their spans to the collector.

Imported when an endpoint is set. Only this module and `spans.py` use the library, which itself
reads the standard environment variables: sampler, resource, batches, headers, time-outs.

The event loop decides, and passes entries on. The library's thread makes their spans and sends
them: a trace costs the loop only the recording of its times.
"""

import logging
import re
import threading
from collections.abc import Sequence
from random import getrandbits
from typing import Any, Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from ie_serving import __version__
from ie_serving.telemetry.request import trace_context
from ie_serving.telemetry.request.entry import RequestEntry
from ie_serving.telemetry.request.trace_context import Parent, Trace
from ie_serving.telemetry.trace.spans import SpanMaker

NAME: Final = "ie_serving"
"""Default name of the service, if OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES name none."""
CLOSE_S: Final = 2.0
"""Seconds that the end of the server waits for the last spans; a collector that does not answer
would otherwise delay it for the 30 s that the library waits."""
_IDS: Final = 1 << 64
"""The sampler of a share compares the lower 64 bits of the trace id."""
_USUAL: Final = re.compile(
    r"ParentBased\{root:(?:(AlwaysOnSampler)|(AlwaysOffSampler)|TraceIdRatioBased\{([0-9.e-]+)\}),"
    r"remoteParentSampled:AlwaysOnSampler,remoteParentNotSampled:AlwaysOffSampler,.*"
)
"""The library's descriptions of samplers that keep a trace if the caller keeps it."""
_STATES: Final = "opentelemetry.trace.span"
"""The library's logger that warns of each invalid tracestate and quotes it: text of any client, as
often as it is sent."""
_UNNAMED: Final = "unknown_service"
_NO_PARENT: Final = Context()

_KEPT: Final = SpanContext(1, 1, False, TraceFlags(TraceFlags.SAMPLED))


class QueuedSpan(NamedTuple):
    """An ended request or batch in the library's queue, which reads only `context`.

    Attributes:
        entry: entry of the request or batch.
        links: links of a batch, to its requests.
    """

    entry: RequestEntry
    links: Sequence[Trace]

    @property
    def context(self) -> SpanContext:
        """A context that is kept; the spans themselves have their own."""
        return _KEPT


class Traces:
    """Decides which requests are traced, and sends their spans. Belongs to one event loop.

    Args of the constructor:
        endpoint: URL that spans are posted to.
        exporter: sends the spans; by default over HTTP to `endpoint`.
    """

    def __init__(self, endpoint: str, exporter: SpanExporter | None = None) -> None:
        logging.getLogger(_STATES).setLevel(logging.ERROR)
        provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._sampler = provider.sampler
        self._ids = provider.id_generator
        self._share = _share(self._sampler.get_description())
        maker = SpanMaker(provider.resource, InstrumentationScope(NAME, __version__))
        self._processor = BatchSpanProcessor(
            _ExpandingExporter(exporter or OTLPSpanExporter(endpoint), maker)
        )

    def begin(self, name: str, parent: str, state: str) -> Trace | None:
        """See `watch.Tracing`."""
        given = trace_context.read(parent, state) if parent else None
        if self._share is None:
            return self._sampled(name, given)
        # Decides as the library's own samplers do, which take 1 us more for each request.
        if given is not None:
            own = getrandbits(64) or 1
            return Trace(given.trace_id, own, given.span_id, given.state) if given.sampled else None
        trace_id = getrandbits(128)
        return Trace(trace_id or 1, getrandbits(64) or 1) if trace_id % _IDS < self._share else None

    def _sampled(self, name: str, given: Parent | None) -> Trace | None:
        """Decide with the library's sampler."""
        trace_id = given.trace_id if given else self._ids.generate_trace_id()
        before = _context(given) if given else _NO_PARENT
        found = self._sampler.should_sample(before, trace_id, name, SpanKind.SERVER)
        if found.decision is not Decision.RECORD_AND_SAMPLE:
            return None
        kept = found.trace_state.to_header() if found.trace_state else ""
        own = self._ids.generate_span_id()
        return Trace(trace_id, own, given.span_id if given else 0, kept)

    def root(self) -> Trace:
        """See `watch.Tracing`."""
        return Trace(self._ids.generate_trace_id(), self._ids.generate_span_id())

    def note(self, entry: RequestEntry, links: Sequence[Trace] = ()) -> None:
        """See `watch.Tracing`. Never waits: if the queue is full, the oldest are dropped."""
        assert entry.trace is not None
        ended: Any = QueuedSpan(entry, links)
        self._processor.on_end(ended)

    def close(self) -> None:
        """See `watch.Tracing`."""
        # The library waits for as long as its exporter hangs: hence a thread.
        ending = threading.Thread(target=self._processor.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(CLOSE_S)


class _ExpandingExporter(SpanExporter):
    """Makes the spans of ended entries, and passes them to `exporter`; in the library's thread."""

    def __init__(self, exporter: SpanExporter, maker: SpanMaker) -> None:
        self._exporter = exporter
        self._maker = maker

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See `SpanExporter`; each of `spans` is a `QueuedSpan`."""
        ended: Any = spans
        made = [span for each in ended for span in self._maker.spans(each.entry, each.links)]
        return self._exporter.export(made)

    def shutdown(self) -> None:
        """See `SpanExporter`."""
        self._exporter.shutdown()


def _share(sampler: str) -> int | None:
    """Return the bound of the trace ids that a usual sampler keeps; None for another sampler."""
    found = _USUAL.fullmatch(sampler)
    if found is None:
        return None
    kept, _, ratio = found.groups()
    return round((1.0 if kept else float(ratio or 0)) * _IDS)


def _resource() -> Resource:
    found = Resource.create()
    if str(found.attributes[SERVICE_NAME]).startswith(_UNNAMED):
        found = found.merge(Resource({SERVICE_NAME: NAME}))
    return found


def _context(given: Parent) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if given.sampled else TraceFlags.DEFAULT)
    state = TraceState.from_header([given.state]) if given.state else None
    parent = SpanContext(given.trace_id, given.span_id, True, flags, state)
    return set_span_in_context(NonRecordingSpan(parent), _NO_PARENT)
