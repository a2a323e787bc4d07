"""Trace context on the wire. Source: W3C Trace Context, level 2.

Pure, and without a library: every HTTP request may carry a context, and most of them are not
sampled.
"""

import re
from typing import Final, NamedTuple

PARENT: Final = "traceparent"
STATE: Final = "tracestate"
LONGEST_STATE: Final = 8192
"""Most characters of an accepted tracestate. The specification demands 512, and permits to ignore a
longer one."""

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1
_UNKNOWN_VERSION: Final = "ff"


class Parent(NamedTuple):
    """The span that has sent a request.

    Attributes:
        trace_id, span_id: its ids, neither of them 0.
        sampled: whether its trace is kept.
        state: its tracestate, as sent.
    """

    trace_id: int
    span_id: int
    sampled: bool
    state: str = ""


class Trace(NamedTuple):
    """The span of a request that is traced.

    Attributes:
        trace_id, span_id: its ids.
        parent_id: its parent span; 0 if it begins its trace.
        state: its tracestate.
    """

    trace_id: int
    span_id: int
    parent_id: int = 0
    state: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that pass the context on."""
        parent = {PARENT: f"00-{self.trace_id:032x}-{self.span_id:016x}-01"}
        return {**parent, STATE: self.state} if self.state else parent


def read(parent: str, state: str = "") -> Parent | None:
    """Read the headers of a request; None if they hold no valid context: a new trace begins then.

    Args:
        parent: value of `traceparent`.
        state: value of `tracestate`; several are joined by commas.
    """
    found = _FORM.fullmatch(parent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    # Later versions may have further fields; version 00 has none, and ff is invalid.
    if version == _UNKNOWN_VERSION or (more and version == "00"):
        return None
    ids = int(trace_id, 16), int(span_id, 16)
    if not all(ids):
        return None
    kept = state if len(state) <= LONGEST_STATE else ""
    return Parent(*ids, bool(int(flags, 16) & _SAMPLED), kept)
