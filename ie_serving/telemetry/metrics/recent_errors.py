"""The requests that failed lately, by kind: what the page at `/` shows of them.

One kind is one place that an operator looks at, however many requests fail there, so that a client
that is refused a thousand times a second hides no other. A request that succeeds never comes here.
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
"""Kinds that are kept; for one more the one that is longest ago is forgotten."""
LONGEST_TEXT: Final = 400
"""Characters of a text that are shown."""
LONGEST_KEPT: Final = 1000
"""Characters of a text that are kept until it is shown, 200 KB in all at the most: more than are
shown, so that no password of a URL is cut before the sign by which it is known."""
LEFT: Final = "cancelled: nobody waited for the answer any longer"
"""Of a request whose client left, whose time was over, or that a drain did not wait for."""
QUOTING: Final = frozenset({Code.INVALID_ARGUMENT, Code.INTERNAL, Code.UNKNOWN})
"""Codes whose texts may quote what a client has sent, or what its model made of it."""


class Kind(NamedTuple):
    """What failures of one kind have in common.

    Attributes:
        model: empty for names that nobody serves, else callers could push out the others.
        key: version, interface and method.
        code: name of the status code.
    """

    model: str
    key: Key
    code: str


class Failure(NamedTuple):
    """The failures of one kind.

    Attributes:
        number: how many there were since it is kept.
        first, last: when the first and the last one were; seconds since 1970.
        text: of the last one, as its client was told; None where it is not kept.
    """

    number: int
    first: float
    last: float
    text: str | None


class RecentErrors:
    """The kinds of failures of one worker. Belongs to one event loop.

    Args of the constructor:
        quotes: keep also texts that may quote what a client has sent. Where nobody is asked who
            they are, one stranger's request is not for another's eyes.
    """

    def __init__(self, *, quotes: bool) -> None:
        self._quotes = quotes
        self._kinds: OrderedDict[Kind, Failure] = OrderedDict()

    def add(self, model: str, key: Key, code: Code, error: BaseException) -> None:
        """Note one failure; the error itself, which holds the frames of its request, is let go."""
        kind = Kind(model, key, code.name)
        before, now = self._kinds.pop(kind, None), time.time()
        number, first = (before.number + 1, before.first) if before else (1, now)
        self._kinds[kind] = Failure(number, first, now, self._text(code, error))
        if len(self._kinds) > MOST_KINDS:
            self._kinds.popitem(last=False)

    def newest(self) -> list[tuple[Kind, Failure]]:
        """Give all kinds, the one that happened last first."""
        return [(kind, _masked(each)) for kind, each in reversed(self._kinds.items())]

    def _text(self, code: Code, error: BaseException) -> str | None:
        if isinstance(error, asyncio.CancelledError):
            return LEFT
        # A defect has the text that its library gives it, which may hold anything.
        if not isinstance(error, ServingError) or (code in QUOTING and not self._quotes):
            return None
        return str(error)[:LONGEST_KEPT]


# Only now: it takes 25 us, and a client may fail very often.
def _masked(failure: Failure) -> Failure:
    if failure.text is None:
        return failure
    return failure._replace(text=one_line(mask(failure.text))[:LONGEST_TEXT])
