"""Recent errors of requests, by kind, for the page at `/`.

All requests that fail for one cause count as one kind, so that a client that is refused a thousand
times a second does not hide other errors. Successful requests do not use this module.
"""

import asyncio
import time
from collections import OrderedDict
from typing import Final, NamedTuple

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log.events import mask, one_line
from ie_serving.telemetry.metrics.requests import Key

MOST_KINDS: Final = 50
"""Kinds that are kept; a further one replaces the kind that occurred longest ago."""
LONGEST_TEXT: Final = 400
"""Characters of a text that are shown."""
LONGEST_KEPT: Final = 1000
"""Characters of a text that are kept until it is shown, at most 200 KB in all: more than are shown,
so that no password of a URL is cut before the sign that identifies it."""
LEFT: Final = "cancelled: no client waited for the answer any longer"
"""Text for a request whose client left, that reached its deadline, or that a drain cancelled."""
QUOTING: Final = frozenset({Code.INVALID_ARGUMENT, Code.INTERNAL, Code.UNKNOWN})
"""Codes whose texts may quote the client's data, or the model's output for it."""


class FailureKind(NamedTuple):
    """Identifies failures of one kind.

    Attributes:
        model: empty for names that are not served, else callers could evict the other kinds.
        key: version, interface and method.
        code: name of the status code.
    """

    model: str
    key: Key
    code: str


class FailureCount(NamedTuple):
    """The failures of one kind.

    Attributes:
        number: failures since the kind is kept.
        first, last: times of the first and the last failure; seconds since 1970.
        text: of the last one, as sent to its client; None if it is not kept.
    """

    number: int
    first: float
    last: float
    text: str | None


class RecentErrors:
    """The kinds of failures of one worker. Belongs to one event loop.

    Args of the constructor:
        quotes: also keep texts that may quote clients' data. Without authentication, anyone could
            read what another client has sent.
    """

    def __init__(self, *, quotes: bool) -> None:
        self._quotes = quotes
        self._kinds: OrderedDict[FailureKind, FailureCount] = OrderedDict()

    def add(self, model: str, key: Key, code: Code, error: BaseException) -> None:
        """Record one failure, but not the error itself, which refers to the request's frames."""
        kind = FailureKind(model, key, code.name)
        before, now = self._kinds.pop(kind, None), time.time()
        number, first = (before.number + 1, before.first) if before else (1, now)
        self._kinds[kind] = FailureCount(number, first, now, self._text(code, error))
        if len(self._kinds) > MOST_KINDS:
            self._kinds.popitem(last=False)

    def newest(self) -> list[tuple[FailureKind, FailureCount]]:
        """Return all kinds, the most recent one first."""
        return [(kind, _masked(each)) for kind, each in reversed(self._kinds.items())]

    def _text(self, code: Code, error: BaseException) -> str | None:
        if isinstance(error, asyncio.CancelledError):
            return LEFT
        # The text of a defect comes from a library, and may contain anything.
        if not isinstance(error, ServingError) or (code in QUOTING and not self._quotes):
            return None
        return str(error)[:LONGEST_KEPT]


# Masked only when shown: it takes 25 us, and a client may fail very often.
def _masked(failure: FailureCount) -> FailureCount:
    if failure.text is None:
        return failure
    return failure._replace(text=one_line(mask(failure.text))[:LONGEST_TEXT])
