"""Metrics of one model's requests and open streams, and the recent errors of requests by kind.

A request pays for two appends. Counts and buckets of successful requests are computed from the
appended times when the page is read. The counts of a version leave the page with the version, but
stay in the counts of its model, which never fall.

All requests that fail for one cause count as one kind, so that a client that is refused a thousand
times a second does not hide other errors. The page at `/` shows the kinds.
"""

import asyncio
import time
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log.events import escaped, mask
from ie_serving.telemetry.metrics.text import (
    EVERY_SECOND,
    SETTLED_AT,
    Durations,
    Histogram,
    family,
    sample,
    written,
)

STREAMS_OPEN: Final = "ie_serving_streams_open"
STREAM_DROPPED: Final = "ie_serving_stream_requests_dropped_total"

MOST_SERIES: Final = 16
"""Series of a model from which each further one triggers the removal of gone versions' series, even
if no page is read."""
_NOT_THEIRS: Final = {
    "GRPC": {"GetModelStatus", "GetModelMetadata", "MultiInference", "ModelMetadata", "ModelReady"},
    "REST": {"ModelMetadata", "ModelReady"},
}
"""Methods that TensorFlow Serving does not count, or does not have, by entry point."""
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


class StreamMetrics:
    """The streams of this process. Belongs to one event loop.

    Attributes:
        open: number of open streams.
        dropped: requests that were dropped for newer ones, by model.
    """

    def __init__(self) -> None:
        self.open = 0
        self.dropped: Counter[str] = Counter()

    def lines(self) -> Iterator[str]:
        """Yield the samples."""
        yield from family(
            STREAMS_OPEN,
            "gauge",
            "Streams that are open, over both ports.",
            (sample(STREAMS_OPEN, self.open),),
        )
        yield from family(
            STREAM_DROPPED,
            "counter",
            "Requests of streams with drop_oldest that were dropped for newer ones.",
            (
                sample(STREAM_DROPPED, number, model_name=model)
                for model, number in list(self.dropped.items())
            ),
        )


class SeriesKey(NamedTuple):
    """Identifies the requests of one series.

    Attributes:
        version: empty if not known.
        entrypoint: `GRPC` or `REST`; empty if not known.
        method: such as `Predict` or `GetModelStatus`; empty if not known.
        api: TensorFlow Serving's name of the method.
    """

    version: str
    entrypoint: str
    method: str
    api: str

    @property
    def labels(self) -> dict[str, str]:
        """Our labels, after `model_name`."""
        return {"version": self.version, "interface": self.interface, "method": self.method}

    @property
    def interface(self) -> str:
        """Our and OpenVINO Model Server's name of the entry point."""
        return "gRPC" if self.entrypoint == "GRPC" else self.entrypoint


def is_theirs(key: SeriesKey) -> bool:
    """Tell whether TensorFlow Serving counts requests of a series."""
    return key.method not in _NOT_THEIRS.get(key.entrypoint, ())


class ServedRequests:
    """Successful requests of one series. Belongs to one event loop.

    Attributes:
        took: seconds from arrival to encoded reply; appended to directly, then `settle`.
        decoded: seconds from arrival until the model was called, of those that fail in it, too.
        encoded: seconds of encoding the reply; in any thread.
    """

    __slots__ = ("_decoding", "_encoding", "_total", "decoded", "encoded", "took")

    def __init__(self) -> None:
        self._total, self._decoding, self._encoding = Durations(), Durations(), Durations()
        self.took: array[float] = self._total.noted
        self.decoded: array[float] = self._decoding.noted
        self.encoded: array[float] = self._encoding.noted

    def add(self, seconds: float) -> None:
        """Count one request with its time from arrival to encoded reply."""
        self.took.append(seconds)
        if len(self.took) >= SETTLED_AT:
            self.settle()

    def settle(self) -> None:
        """Sort the pending times into the buckets."""
        self._total.settle()
        self._decoding.settle()
        self._encoding.settle()

    @property
    def total(self) -> Histogram:
        """Return the histogram of the times of all requests."""
        return self._total.settle()

    @property
    def begun(self) -> int:
        """Number of requests that the model was called for."""
        return len(self._decoding.settle())

    @property
    def stages(self) -> Iterator[tuple[str, Histogram]]:
        """Yield the times of decoding and encoding."""
        yield "decode", self._decoding.settle()
        yield "encode", self._encoding.settle()


class RequestMetrics:
    """The requests of one model name.

    Attributes:
        served: successful requests.
        failed: failed ones, by the name of their status code.
        broke_off: those of `failed` that the model was called for.
    """

    def __init__(self) -> None:
        self.served: dict[SeriesKey, ServedRequests] = {}
        self.failed: Counter[tuple[SeriesKey, str]] = Counter()
        self.broke_off: Counter[tuple[SeriesKey, str]] = Counter()
        # Versions that are gone keep their sums here, by the labels that TensorFlow Serving has.
        self._past: dict[tuple[str, str], Histogram] = {}
        self._past_failed: Counter[str] = Counter()

    def of(self, key: SeriesKey, known: Callable[[], Collection[str]]) -> ServedRequests:
        """Return the counter of a series' successful requests; `known` returns the versions."""
        served = self.served.get(key)
        if served is None:
            if len(self.served) >= MOST_SERIES:
                # Its own version too: a warm-up precedes the announcement of a new model.
                self.keep({*known(), key.version})
            served = self.served[key] = ServedRequests()
        return served

    def count(self, key: SeriesKey, status: str, *, begun: bool = False) -> None:
        """Count one failed request by the name of its status code."""
        self.failed[key, status] += 1
        if begun:
            self.broke_off[key, status] += 1

    def keep(self, known: Collection[str]) -> None:
        """Merge the series of all other versions into those of the model."""
        # "" stays: it counts requests that ended before their version was known.
        kept = {*known, ""}
        for key in [key for key in self.served if key.version not in kept]:
            total = self.served.pop(key).total
            if is_theirs(key):
                self._past.setdefault((key.api, key.entrypoint), Histogram()).include(total)
        for key, status in [each for each in self.failed if each[0].version not in kept]:
            number = self.failed.pop((key, status))
            self.broke_off.pop((key, status), None)
            self._past_failed[status] += number if is_theirs(key) else 0

    def statuses(self) -> dict[str, int]:
        """Return TensorFlow Serving's number of requests by the name of their status code."""
        counted = Counter(self._past_failed)
        for (key, status), number in self.failed.items():
            counted[status] += number if is_theirs(key) else 0
        succeeded = sum(len(each) for each in self.latencies().values())
        return ({"OK": succeeded} if succeeded else {}) | counted

    def latencies(self) -> dict[tuple[str, str], Histogram]:
        """Return the non-empty latencies of successful requests by API and entry point."""
        found: dict[tuple[str, str], Histogram] = {}
        for series, past in self._past.items():
            found.setdefault(series, Histogram()).include(past)
        for key, served in self.served.items():
            if is_theirs(key):
                found.setdefault((key.api, key.entrypoint), Histogram()).include(served.total)
        return {series: each for series, each in found.items() if len(each)}

    def by_series(self) -> Iterator[tuple[SeriesKey, Histogram]]:
        """Yield the successful requests of each series that is not empty."""
        for key, served in list(self.served.items()):  # series may be added between two lines
            if len(served.total):
                yield key, served.total

    def counts(self, name: str, model: str) -> Iterator[str]:
        """Yield the samples of our counter."""
        for key, total in self.by_series():
            yield sample(name, len(total), model_name=model, **key.labels, code="OK")
        for (key, status), number in list(self.failed.items()):
            yield sample(name, number, model_name=model, **key.labels, code=status)

    def durations(self, name: str, model: str) -> Iterator[str]:
        """Yield the samples of our latency."""
        for key, total in self.by_series():
            labels = written(model_name=model, **key.labels)
            yield from total.lines(name, labels, shown=EVERY_SECOND)

    def stages(self) -> dict[tuple[str, str], Histogram]:
        """Return the times of decoding and encoding, by version and step."""
        found: dict[tuple[str, str], Histogram] = {}
        for key, served in self.served.items():
            for step, each in served.stages:
                if len(each):
                    found.setdefault((key.version, step), Histogram()).include(each)
        return found


class FailureKind(NamedTuple):
    """Identifies failures of one kind.

    Attributes:
        model: empty for names that are not served, else callers could evict the other kinds.
        key: version, interface and method.
        code: name of the status code.
    """

    model: str
    key: SeriesKey
    code: str


class FailureCount(NamedTuple):
    """The failures of one kind.

    Attributes:
        number: failures since the kind is kept.
        first, last: times of the first and the last failure; seconds since 1970.
        text: text of the last one, as sent to its client; None if it is not kept.
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

    def add(self, model: str, key: SeriesKey, code: Code, error: BaseException) -> None:
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
    return failure._replace(text=escaped(mask(failure.text))[:LONGEST_TEXT])
