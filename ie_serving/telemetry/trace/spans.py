"""Makes the spans of one request, or of one batch, from its entry.

Source of names: OpenTelemetry's semantic conventions, HTTP (stable) and RPC (release candidate of
1.39). Attributes that the conventions do not name begin with `ie_serving.`. Spans contain neither
tensor data nor headers or queries.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from random import getrandbits
from typing import Final, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from ie_serving.telemetry.log.events import mask
from ie_serving.telemetry.request.access_lines import written_client
from ie_serving.telemetry.request.entry import RequestEntry, RequestPart, epoch
from ie_serving.telemetry.request.trace_context import Trace

SpanAttributes = Mapping[str, str | int]

SERVER_FAULTS: Final = frozenset(
    ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")
)
"""gRPC codes that are errors of the server's span; the others are the client's."""
SERVER_ERROR: Final = 500
"""HTTP status from which a reply is an error of the server's span."""
METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"))
"""HTTP methods with a span name of their own; others are `_OTHER`."""

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
# Groups are named, so that a route has one name for all models.
_MODEL: Final = re.compile(
    r"(/v[12]/models/)[^/:]+(?:(/versions/)[^/:]+|(/labels/)[^/:]+)?"
    r"((?::(?:predict|classify|regress|invoke|poll|stream)|/(?:metadata|ready|gen_json|gen_client))?)"
)


class _Times(NamedTuple):
    """A span's own values: name, begin and end on the clock of the entry, and the rest."""

    name: str
    began: float
    ended: float
    attributes: SpanAttributes
    links: Sequence[Link] = ()


def context_of(trace: Trace) -> SpanContext:
    """Return the library's context for a span that is kept."""
    state = TraceState.from_header([trace.state]) if trace.state else None
    return SpanContext(trace.trace_id, trace.span_id, False, _SAMPLED, state)


class SpanMaker:
    """Makes spans, in any thread.

    Args of the constructor:
        resource: describes the server.
        scope: describes this instrumentation.
    """

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource = resource
        self._scope = scope

    def spans(self, entry: RequestEntry, links: Sequence[Trace]) -> Iterator[ReadableSpan]:
        """Yield the span of a request, or of a batch linked to `links`, and its child spans."""
        assert entry.trace is not None
        zero = int(epoch() * 1e9)
        if links:
            requests = {"ie_serving.batch.requests": len(links)}
            linked = [Link(context_of(each)) for each in links]
            own = _Times(
                "batch",
                entry.began,
                entry.ended,
                {**_of_model(entry.parts or ()), **requests},
                linked,
            )
            yield self._span(zero, own, context_of(entry.trace), None)
            return
        name, attributes, status = _described(entry)
        whole = _Times(name, entry.arrived or entry.began, entry.ended, attributes)
        server = context_of(entry.trace)
        yield self._span(zero, whole, server, _parent(entry.trace), SpanKind.SERVER, status)
        steps = [
            (part, _context_of(server, getrandbits(64) or 1))
            for part in entry.parts or ()
            if part.what == "step"
        ]
        for part, context in steps:
            step = _Times(
                f"step {part.name}", part.began, part.ended, {"ie_serving.step": part.name}
            )
            yield self._span(zero, step, context, server)
        for inner, at in _stages(entry):
            parent = _step_around(at, steps) or server
            yield self._span(zero, inner, _context_of(server, getrandbits(64) or 1), parent)

    def _span(
        self,
        zero: int,  # start of the entries' clock, in nanoseconds since 1970
        own: _Times,
        context: SpanContext,
        parent: SpanContext | None,
        kind: SpanKind = SpanKind.INTERNAL,
        status: Status | None = None,
    ) -> ReadableSpan:
        return ReadableSpan(
            own.name,
            context,
            parent,
            self._resource,
            own.attributes,
            links=own.links,
            kind=kind,
            status=status or Status(StatusCode.UNSET),
            start_time=zero + round(own.began * 1e9),
            end_time=zero + round(own.ended * 1e9),
            instrumentation_scope=self._scope,
        )


def _stages(entry: RequestEntry) -> Iterator[tuple[_Times, RequestPart | None]]:
    """Yield the stages of a request, each with its inference."""
    ready = entry.whole or entry.began
    if entry.arrived and ready > entry.arrived:
        yield _Times("receive", entry.arrived, ready, {}), None
    if entry.started:
        yield _Times("decode", ready, entry.started, {}), None
    inferences = [part for part in entry.parts or () if part.what == "infer"]
    for part in inferences:
        attributes = _of_model([part])
        if part.waited_s > 0:
            began = part.began - part.waited_s
            yield _Times("queue", began, part.began, attributes), part
        linked = [Link(context_of(part.batch))] if part.batch else []
        yield _Times("infer", part.began, part.ended, attributes, linked), part
    # Models that count no inferences, such as kernels, have one span with their wait.
    if not inferences and entry.started and entry.inferred:
        yield _Times("infer", entry.started, entry.inferred, {}), None
    if entry.encoded:
        yield _Times("encode", entry.inferred, entry.encoded, {}), None


def _step_around(
    part: RequestPart | None, steps: Sequence[tuple[RequestPart, SpanContext]]
) -> SpanContext | None:
    """Return the step that ran an inference, by its times; None if several ran at once."""
    if part is None:
        return None
    around = [context for step, context in steps if step.began <= part.began <= step.ended]
    return around[0] if len(around) == 1 else None


def _of_model(parts: Sequence[RequestPart]) -> dict[str, str | int]:
    for part in parts:
        if part.what == "infer":
            return _model(part.name, part.version)
    return {}


def _model(name: str, version: int | None) -> dict[str, str | int]:
    named: dict[str, str | int] = {"ie_serving.model.name": name} if name else {}
    return named if version is None else {**named, "ie_serving.model.version": version}


def _described(entry: RequestEntry) -> tuple[str, SpanAttributes, Status]:
    """Return name, attributes and status of a request's own span."""
    name, attributes, is_error = _rpc(entry) if entry.asked.interface == "gRPC" else _http(entry)
    client, _, port = written_client(entry.client).rpartition(":")
    if client:
        attributes |= {"client.address": client.strip("[]"), "client.port": int(port)}
    attributes |= _model(*entry.answered_by)
    if entry.id:
        attributes["ie_serving.request.id"] = entry.id.decode()
    if is_error:
        attributes["error.type"] = str(entry.code)
    return name, attributes, Status(StatusCode.ERROR if is_error else StatusCode.UNSET)


def _rpc(entry: RequestEntry) -> tuple[str, dict[str, str | int], bool]:
    method, code = entry.asked.path.lstrip("/"), str(entry.code)
    attributes: dict[str, str | int] = {
        "rpc.system.name": "grpc",
        "rpc.method": method,
        "rpc.response.status_code": code,
    }
    return method, attributes, code in SERVER_FAULTS


def _http(entry: RequestEntry) -> tuple[str, dict[str, str | int], bool]:
    code = int(entry.code)
    known = entry.asked.method in METHODS
    method = entry.asked.method if known else "_OTHER"
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "http.response.status_code": code,
        "url.path": mask(entry.asked.path),  # as in the logs
        "url.scheme": "https" if entry.secure else "http",
    }
    if not known:
        attributes["http.request.method_original"] = entry.asked.method[:32]
    name = method if known else "HTTP"
    if route := route_of(entry.asked.path, code):
        attributes["http.route"] = route
        name = f"{name} {route}"
    return name, attributes, code >= SERVER_ERROR


def route_of(path: str, code: int) -> str:
    """Return the route of a path, which is the same for all models; empty if it has none."""
    found = _MODEL.fullmatch(path)
    if found:
        versions, labels = found[2], found[3]
        choice = f"{versions}{{version}}" if versions else f"{labels}{{label}}" if labels else ""
        return f"{found[1]}{{model}}{choice}{found[4]}"
    # Any other path is a page, whose path is its route; unknown paths must not become span names.
    return path if code < 400 else ""


def _parent(trace: Trace) -> SpanContext | None:
    if not trace.parent_id:
        return None
    return SpanContext(trace.trace_id, trace.parent_id, True, _SAMPLED)


def _context_of(server: SpanContext, span_id: int) -> SpanContext:
    return SpanContext(server.trace_id, span_id, False, _SAMPLED, server.trace_state)
