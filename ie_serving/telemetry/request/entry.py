"""What is known of one request, for whoever tells of it: access log, traces, `Server-Timing`.

Whoever carries a request makes an `Entry` when it has come, and sets `CURRENT`; who works for the
request adds what it knows. Where nobody tells of requests there are no entries.
"""

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from ie_serving.telemetry.request.request_id import made_ids

if TYPE_CHECKING:
    from ie_serving.telemetry.request.trace_context import Trace

LONGEST: Final = 256
"""Characters of a path or of a model's name that are kept: they are what the client sent, and a
name that no model has may be as long as a message."""
MOST_PARTS: Final = 128
"""Parts of one request that are kept, some 150 bytes each: a step of a graph may run its model for
16,384 entries."""

now: Final = time.perf_counter
"""The clock of an entry."""


def epoch() -> float:
    """Give what is added to a time of that clock to make it seconds since 1970.

    It changes whenever somebody sets the system's clock.
    """
    return time.time() - now()


class Part(NamedTuple):
    """An inference, or a step of a graph, that was done for a request.

    Attributes:
        what: `infer` or `step`.
        name: of the model, or of the step.
        version: of the model.
        began, ended: when, on the clock of the entry.
        waited_s: seconds before `began` in which an inference waited for its turn.
        batch: the span of the batch that the inference was, where requests shared it.
    """

    what: str
    name: str
    version: int | None
    began: float
    ended: float
    waited_s: float = 0.0
    batch: "Trace | None" = None


class Asked(NamedTuple):
    """What many requests have in common, so that it is made once.

    Attributes:
        interface: `REST` or `gRPC`.
        method: HTTP's, or the name of the RPC.
        path: of the request, without the query, not longer than `LONGEST`.
    """

    interface: str = ""
    method: str = ""
    path: str = ""


NOBODY: Final[tuple[str, int | None]] = ("", None)
"""What answers a request for no model."""


class Entry:
    """What is known of one request. Times are of `time.perf_counter()`, 0.0 where unknown.

    Attributes:
        id: request id, printable ASCII; empty where the client has sent none, and none was made.
        client: address, as the transport has it: host and port, or what gRPC's library makes of
            them, `ipv4:HOST:PORT`.
        asked: what it asks for.
        trace: its span, where it is traced.
        parts: what was done for it; None where nobody wants to know.
        secure: whether it came over TLS, of one that is traced; None where that is not known.
        answers: name of the model that was asked for, empty where none is known, and the version
            that answered.
        code: HTTP status, or canonical code.
        received: bytes of the body or message; None where it came in pieces of unknown length.
        sent: bytes of the body or message that answers.
        arrived: when the first of it came.
        began: when it came.
        whole: when its body was whole, of one that came in pieces.
        started: when its inputs were decoded.
        inferred: when its outputs were there.
        encoded: when they were encoded.
        ended: when the answer was made; 0.0 while it is worked on.
        spare: whether it has ended, and only the context of its connection refers to it.
    """

    # As values of the class, so that to make an entry costs no call beyond that of the class.
    id: bytes = b""
    client: object = None
    asked: Asked = Asked()
    trace: "Trace | None" = None
    parts: list[Part] | None = None
    secure: bool | None = None
    answers: tuple[str, int | None] = NOBODY
    code: str | int = ""
    received: int | None = None
    sent: int = 0
    arrived = began = whole = started = inferred = encoded = ended = 0.0
    spare: bool = False

    def named(self) -> bytes:
        """Give the id of the request; one is made where it has none."""
        self.id = self.id or next(made_ids())
        return self.id

    def forget_times(self) -> None:
        """Forget the times of what was one of many, as a message of a stream."""
        self.started = self.inferred = self.encoded = 0.0

    def add(self, part: Part) -> None:
        """Keep a part, where anybody wants to know, and as long as there are not too many."""
        if self.parts is not None and len(self.parts) < MOST_PARTS:
            self.parts.append(part)


CURRENT: ContextVar[Entry | None] = ContextVar("entry", default=None)
"""The entry of the request that is worked on. It stays set when the request has ended, since what
begins eagerly shares the context of the connection: who reads it looks at `ended`."""


def current() -> Entry | None:
    """Give the entry of the request that is worked on; None where there is none."""
    entry = CURRENT.get()
    return None if entry is None or entry.ended else entry
