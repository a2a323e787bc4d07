"""Facts of one request for its observers: access log, traces, `Server-Timing`.

The code that carries a request makes a `RequestEntry` on arrival and sets `CURRENT`; code that
works for the request adds facts. Without observers there are no entries.

The id of a request is the client's own if it is safe to log, otherwise a new one. Source: Envoy,
nginx and Heroku call the header `X-Request-Id`.
"""

import itertools
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ie_serving.telemetry.request.trace_context import Trace

LONGEST: Final = 256
"""Characters of a path or of a model's name that are kept: clients choose them, and a name that no
model has may be as long as a message."""
MOST_PARTS: Final = 128
"""Parts of one request that are kept, some 150 bytes each: a step of a graph may run its model for
16,384 entries."""

now: Final = time.perf_counter
"""The clock of an entry."""

NO_MODEL: Final[tuple[str, int | None]] = ("", None)
"""Model and version of a request for no model."""
ID_HEADER: Final = "x-request-id"
"""A header over REST, metadata over gRPC."""
LONGEST_ID: Final = 128
"""Most characters of an accepted id; a longer one is ignored."""
# Printable ASCII without blanks, quotes and backslashes: ids are logged and sent back.
_SAFE = re.compile(rb"[!#-&(-\[\]-~]{1,%d}" % LONGEST_ID)


def epoch() -> float:
    """Return the offset from the entries' clock to seconds since 1970.

    It changes whenever the system's clock is set.
    """
    return time.time() - now()


class RequestPart(NamedTuple):
    """An inference, or a step of a graph, that was run for a request.

    Attributes:
        what: `infer` or `step`.
        name: name of the model, or of the step.
        version: version of the model.
        began, ended: seconds on the clock of the entry.
        waited_s: seconds before `began` for which an inference waited for an infer request.
        batch: the span of the batch that was inferred, if several requests shared it.
    """

    what: str
    name: str
    version: int | None
    began: float
    ended: float
    waited_s: float = 0.0
    batch: "Trace | None" = None


class RequestTarget(NamedTuple):
    """Facts that many requests have in common, so that they are made once.

    Attributes:
        interface: `REST` or `gRPC`.
        method: HTTP's, or the name of the RPC.
        path: path of the request, without the query, not longer than `LONGEST`.
    """

    interface: str = ""
    method: str = ""
    path: str = ""


class RequestEntry:
    """Facts of one request. Times are of `time.perf_counter()`, 0.0 if unknown.

    Attributes:
        id: request id, printable ASCII; empty if the client has sent none, and none was made.
        client: address, as the transport has it: host and port, or the form of gRPC's library,
            `ipv4:HOST:PORT`.
        asked: servable that the request asks for.
        trace: its span, if it is traced.
        parts: inferences and steps run for it; None if no observer wants them.
        secure: whether a traced request came over TLS; None if not known.
        answered_by: name of the model that was asked for, empty if not known, and the version that
            answered.
        code: HTTP status, or canonical code.
        received: bytes of the body or message; None if it came in pieces of unknown length.
        sent: bytes of the reply's body or message.
        arrived: time at which its first bytes came.
        began: time at which it came.
        whole: time at which its body was complete, if that came in pieces.
        started: time at which its inputs were decoded.
        inferred: time at which its outputs were ready.
        encoded: time at which they were encoded.
        ended: time at which the reply was made; 0.0 while the request is in progress.
        spare: whether it has ended, and only the context of its connection refers to it.
    """

    # Defaults in the class, so that making an entry costs no call beyond that of the class.
    id: bytes = b""
    client: object = None
    asked: RequestTarget = RequestTarget()
    trace: "Trace | None" = None
    parts: list[RequestPart] | None = None
    secure: bool | None = None
    answered_by: tuple[str, int | None] = NO_MODEL
    code: str | int = ""
    received: int | None = None
    sent: int = 0
    arrived = began = whole = started = inferred = encoded = ended = 0.0
    spare: bool = False

    def named(self) -> bytes:
        """Return the id of the request; make one if it has none."""
        self.id = self.id or next(made_ids())
        return self.id

    def forget_times(self) -> None:
        """Discard the times of one of many messages, as in a stream."""
        self.started = self.inferred = self.encoded = 0.0

    def add(self, part: RequestPart) -> None:
        """Keep a part, if an observer wants parts and their number is below the limit."""
        if self.parts is not None and len(self.parts) < MOST_PARTS:
            self.parts.append(part)


ReportBatch = Callable[[RequestEntry, Sequence[tuple[RequestEntry, float]]], None]
"""Called for a batch that has ended; see `watch.Watch.batch`."""

CURRENT: ContextVar[RequestEntry | None] = ContextVar("entry", default=None)
"""The entry of the present request. It stays set after the request has ended, since eagerly started
work shares the context of the connection: readers have to check `ended`."""


def current() -> RequestEntry | None:
    """Return the entry of the present request; None if there is none."""
    entry = CURRENT.get()
    return None if entry is None or entry.ended else entry


class ProfiledRequest(NamedTuple):
    """One request. Times are of `time.perf_counter()`, 0.0 if unknown.

    Attributes:
        name: name of the operation, such as `predict`.
        facts: name and value of what else is known: front end, model, version, code.
        began: time at which it arrived.
        started: time at which its inputs were decoded.
        inferred: time at which its outputs were ready.
        encoded: time at which they were encoded.
        ended: time at which its reply was made.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    began: float
    started: float
    inferred: float
    encoded: float
    ended: float

    @property
    def stages(self) -> Iterator[tuple[str, float, float]]:
        """Yield name, begin and end of each stage that is known, in their order."""
        times = (self.began, self.started, self.inferred, self.encoded)
        for index, name in enumerate(("decode", "infer", "encode")):
            if times[index] and times[index + 1]:
                yield name, times[index], times[index + 1]


@cache
def made_ids() -> Iterator[bytes]:
    """Return an iterator of ids that no other process makes: a random beginning, and a number.

    For all threads of a process. First called in the worker: made before the fork, they would be
    the same in each worker.
    """
    # Random once, then counted: random bytes for each id would cost a system call.
    return map(f"{secrets.token_hex(8)}%012x".encode().__mod__, itertools.count(1))


def safe_id(given: bytes) -> bytes:
    """Return the id that a client has sent if it is safe to log; else an empty one."""
    return given if _SAFE.fullmatch(given) else b""
