"""Counts and latencies of the models, and the metrics page for Prometheus.

The page begins with the families of TensorFlow Serving (`tensorflow_families.py`). Our own follow:
they begin with `ie_serving_` and keep to the conventions of Prometheus. Then come those of OpenVINO
Model Server (`ovms_families.py`).

One event loop writes and reads: plain integers, no locks. A data plane binds a model's series once
and then pays for appending two numbers per request. Only models that are served have series of
their own; requests for other names count under `model_name=""`, so callers cannot grow the page.
"""

import asyncio
import mmap
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import islice
from typing import TypeVar

from ie_serving.core.runtime.waits import SingleFlight
from ie_serving.telemetry.metrics.batch_metrics import BatchMetrics, batch_lines
from ie_serving.telemetry.metrics.layers import (
    CacheMetrics,
    RecordMetrics,
    SequenceMetrics,
    cache_lines,
    record_lines,
    sequence_lines,
)
from ie_serving.telemetry.metrics.ovms_families import ovms_lines
from ie_serving.telemetry.metrics.requests import (
    RecentErrors,
    RequestMetrics,
    SeriesKey,
    ServedRequests,
    is_theirs,
)
from ie_serving.telemetry.metrics.step_metrics import StepMetrics, step_lines
from ie_serving.telemetry.metrics.tensorflow_families import (
    InferenceTotals,
    UnservedRequests,
    tensorflow_lines,
)
from ie_serving.telemetry.metrics.text import counters, family, sample, written
from ie_serving.telemetry.metrics.version_metrics import LiveVersions, version_lines

T = TypeVar("T")

REQUESTS = "ie_serving_requests_total"
REQUEST_DURATION = "ie_serving_request_seconds"
REJECTED = "ie_serving_rejected_requests_total"
SHADOWED = "ie_serving_shadow_requests_total"
LISTING_FAILURES = "ie_serving_listing_failures_total"
VERSIONS_CHANGED = "ie_serving_served_versions_changed_total"
LOADS = "ie_serving_loads_total"
VERSIONS = "ie_serving_versions"
SIGNATURES = "ie_serving_signatures"
COMPARED = "ie_serving_compared_signatures"

LINES_AT_ONCE = 256
"""Lines that are written, or states that are read, in 0.5 ms, before the event loop runs other
tasks."""
SMALL_PAGE_BYTES = 1 << 20
"""Bytes that are mapped for a page at first; only those that are written take memory."""

ReadStates = Callable[[], Iterable[tuple[str, int, str]]]
"""Returns model name, number and state of each version that is not at its end."""

Precisions = Callable[[], Iterable[tuple[str, str]]]
"""Returns the model name and the precision of each served signature."""

PagePart = Callable[[], Iterable[str]]
"""Returns lines of the page."""


class ModelMetrics:
    """The series of one model name.

    Attributes:
        batches: counts of requests that were batched.
        caches: counts of kept answers.
        recorded: counts of recorded requests.
        sequences: counts of requests that share a state.
        shadowed: sampled requests, by what has become of their copies.
        steps: durations of a graph's steps.
        requests: counts of requests by outcome.
        rejected: requests that were refused because of the server's state, by reason.
        loads: counts of loads of versions, by outcome.
        attempts: the same by version and path, in the words of TensorFlow Serving.
        listing_failures: listings of the model's repository that failed.
        versions_changed: changes of the files of a version that serves.
    """

    def __init__(self) -> None:
        self.batches = BatchMetrics()
        self.caches = CacheMetrics()
        self.recorded = RecordMetrics()
        self.sequences = SequenceMetrics()
        self.steps = StepMetrics()
        self.requests = RequestMetrics()
        self.rejected: Counter[str] = Counter()
        self.shadowed: Counter[str] = Counter()
        self.loads: Counter[str] = Counter()
        self.attempts: Counter[tuple[str, str, str]] = Counter()
        self.listing_failures = 0
        self.versions_changed = 0

    def count_listing_failure(self) -> None:
        """Count one listing of the model's repository that failed."""
        self.listing_failures += 1

    def count_load(self, base_path: str, version: int, succeeded: bool) -> None:
        """Count one load of a version that has ended."""
        self.loads["ok" if succeeded else "failed"] += 1
        path, status = f"{base_path.rstrip('/')}/{version}", "success" if succeeded else "fail"
        self.attempts[str(version), path, status] += 1

    def count_changed_version(self) -> None:
        """Count one change of the files of a version that serves."""
        self.versions_changed += 1


class Metrics:
    """The series of every model served by this worker.

    Args of the constructor:
        wanted: whether there is a page; without a page nothing is measured.
        is_ovms: whether OpenVINO Model Server is replaced: its series exist from a load on.

    Attributes:
        wanted: whether there is a page.
        recent: keeps recent errors; None if no page shows them.
        united: returns the page of all workers; None: there is one worker.
    """

    def __init__(self, *, wanted: bool = True, is_ovms: bool = False) -> None:
        self.wanted = wanted
        self._is_ovms = is_ovms
        self.recent: RecentErrors | None = None
        self.united: Callable[[], Awaitable[bytes | memoryview]] | None = None
        self._unknown = ModelMetrics()
        self._asked = UnservedRequests()
        self._inferred = InferenceTotals()
        self._gone_batches = BatchMetrics()
        self._models: dict[str, ModelMetrics] = {"": self._unknown}
        self._names: Collection[str] = frozenset()
        self._states: ReadStates = lambda: ()
        self._precisions: Precisions = lambda: ()
        self._compared: Precisions = lambda: ()
        self._live: LiveVersions = lambda: ()
        self._parts: list[PagePart] = []
        self._writing: SingleFlight[str, bytes | memoryview] = SingleFlight()

    def add(self, model: str) -> ModelMetrics:
        """Return a served model's series, new or existing."""
        if model not in self._models:
            self._models[model] = ModelMetrics()
        return self._models[model]

    def of(self, model: str) -> ModelMetrics:
        """Return the series for a request, whatever model name it asked for."""
        found = self._models.get(model)
        if found is None:
            return self.add(model) if model in self._names else self._unknown
        return found

    def count_failed(
        self, model: str, key: SeriesKey, status: str, *, begun: bool = False
    ) -> ModelMetrics:
        """Count a failed request, whatever model name it asked for; return the series.

        Args:
            model: name of the model that the request asked for.
            key: series of the request.
            status: name of its status code.
            begun: whether the model was called for the request.
        """
        series = self.of(model)
        series.requests.count(key, status, begun=begun)
        if series is self._unknown and model and is_theirs(key):
            self._asked.count(model, status)
        return series

    def served(self, model: str, key: SeriesKey) -> ServedRequests:
        """Return the counter of successful requests of one series of a served model.

        It is on the page once a request is counted.
        """
        # `add`, not `of`: a warm-up binds before the manager announces the new model's name.
        return self.add(model).requests.of(key, partial(self._live_versions, model))

    def _live_versions(self, model: str) -> set[str]:
        """Return the versions of a model that are not at their end."""
        return {str(version) for name, version, _ in self._states() if name == model}

    def keep(self, models: Collection[str]) -> None:
        """Keep series for exactly these models, and make them when they are first needed.

        10,000 models that are never asked would otherwise have 400,000 objects, and each page would
        visit them. Code that still holds the series of a dropped model may go on counting there.
        """
        # "" stays: it counts requests for names that are not served.
        for name in [name for name in self._models if name and name not in models]:
            self._gone_batches.include(self._models.pop(name).batches)
        self._names = frozenset(models)

    def show_states(self, states: ReadStates) -> None:
        """Register the source of all versions' states, read with each page."""
        self._states = states

    def show_compared(self, compared: Precisions) -> None:
        """Register the source of model names and comparison results, read with each page."""
        self._compared = compared

    def show_precisions(self, precisions: Precisions) -> None:
        """Register the source of the precisions in use, read with each page."""
        self._precisions = precisions

    def show_versions(self, live: LiveVersions) -> None:
        """Register the source of AVAILABLE versions, read with each page."""
        self._live = live

    def show(self, part: PagePart) -> None:
        """Register a source of further lines, read with each page."""
        self._parts.append(part)

    def text(self) -> str:
        """Write the metrics page."""
        return "\n".join(self._lines(list(self._states()))) + "\n"

    async def page(self) -> bytes | memoryview:
        """Write the page of the whole server; requests that come meanwhile get the same page."""
        # No budget counts its lines: a page for each concurrent request would fill the memory, and
        # with several workers each would wait until all had written the pages of those before it.
        return await self._writing.share("", self.united or self.own_page)

    async def own_page(self) -> memoryview:
        """Write this worker's page in steps: a thousand models take a second of processor time."""
        # In a mapping of its own, which the kernel gets back once the page is sent. A page of 2,000
        # models has 24 MB: freed in a heap these stay, and count in the budget of models in memory.
        # Private: a shared mapping has no memory behind the pages that `resize` adds.
        page = mmap.mmap(-1, SMALL_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        states: list[tuple[str, int, str]] = []
        async for some in _in_turns(self._states()):
            states += some
        async for lines in _in_turns(self._lines(states)):
            text = ("\n".join(lines) + "\n").encode()
            if page.tell() + len(text) > len(page):
                page.resize(2 * len(page) + len(text))
            page.write(text)
        return memoryview(page)[: page.tell()].toreadonly()

    def _lines(self, states: Sequence[tuple[str, int, str]]) -> Iterator[str]:
        """Yield the lines; counts may change between two of them."""
        models, live = dict(self._models), list(self._live())
        self._forget_gone(states)
        requests = {name: model.requests for name, model in models.items()}
        self._inferred.look(live, models)
        gone, asked, inferred = self._gone_batches, self._asked, self._inferred
        yield from tensorflow_lines(models, gone, asked, inferred, live)
        yield from _own_lines(models)
        by_state = ((name, state) for name, _, state in states)
        yield from _gauge(VERSIONS, "Versions by state.", "state", by_state)
        precisions = self._precisions()
        yield from _gauge(SIGNATURES, "Signatures by precision.", "precision", precisions)
        yield from _gauge(COMPARED, "Signatures by comparison.", "result", self._compared())
        yield from version_lines(live, requests)
        graphs = [name for name, each in models.items() if each.steps.is_graph]
        yield from ovms_lines(requests, live, graphs, from_load=self._is_ovms)
        for part in self._parts:
            yield from part()

    def _forget_gone(self, states: Iterable[tuple[str, int, str]]) -> None:
        """Remove the series of versions that have gone from the page.

        Args:
            states: read before, while versions may have come.
        """
        known = _by_model(states)
        counted = ((n, at) for n, model in self._models.items() for at, *_ in model.attempts)
        if any(version not in known.get(name, ()) for name, version in counted):
            known = _by_model(self._states())  # seldom: most pages find no version gone
        # If no version is known, none is removed: the versions may not be registered yet.
        for name, model in self._models.items() if known else ():
            model.requests.keep(known.get(name, ()))
            for each in [each for each in model.attempts if each[0] not in known.get(name, ())]:
                del model.attempts[each]


async def _in_turns(items: Iterable[T]) -> AsyncIterator[list[T]]:
    """Yield `LINES_AT_ONCE` items at a time, and let the event loop run other tasks between."""
    rest = iter(items)
    while some := list(islice(rest, LINES_AT_ONCE)):
        yield some
        await asyncio.sleep(0)


def _by_model(states: Iterable[tuple[str, int, str]]) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for name, version, _ in states:
        known.setdefault(name, set()).add(str(version))
    return known


def _own_lines(models: Mapping[str, ModelMetrics]) -> Iterator[str]:
    yield from _requests(models)
    yield from _loads(models)
    labelled = [(written(model_name=name), each) for name, each in models.items()]
    yield from batch_lines([(label, each.batches) for label, each in labelled])
    yield from sequence_lines([(label, each.sequences) for label, each in labelled])
    yield from cache_lines({name: each.caches for name, each in models.items()})
    yield from record_lines({name: each.recorded for name, each in models.items()})
    yield from counters(
        SHADOWED,
        "Sampled requests, by how the shadow's answer compares.",
        "result",
        [(label, each.shadowed) for label, each in labelled],
    )
    yield from step_lines({name: each.steps for name, each in models.items()})


def _requests(models: Mapping[str, ModelMetrics]) -> Iterator[str]:
    yield from family(
        REQUESTS,
        "counter",
        "Finished requests.",
        (line for name, each in models.items() for line in each.requests.counts(REQUESTS, name)),
    )
    yield from family(
        REQUEST_DURATION,
        "histogram",
        "Seconds from arrival to encoded reply of requests that succeeded.",
        (
            line
            for name, each in models.items()
            for line in each.requests.durations(REQUEST_DURATION, name)
        ),
    )
    yield from counters(
        REJECTED,
        "Requests refused for the state of the server.",
        "reason",
        ((written(model_name=name), each.rejected) for name, each in models.items()),
    )


def _loads(models: Mapping[str, ModelMetrics]) -> Iterator[str]:
    yield from counters(
        LOADS,
        "Loads of versions that have ended.",
        "result",
        ((written(model_name=name), each.loads) for name, each in models.items()),
    )
    yield from _counter_lines(
        LISTING_FAILURES,
        "Listings of the model's repository that failed.",
        {name: each.listing_failures for name, each in models.items()},
    )
    yield from _counter_lines(
        VERSIONS_CHANGED,
        "Changes of the files of versions that serve.",
        {name: each.versions_changed for name, each in models.items()},
    )


def _counter_lines(name: str, meaning: str, numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield a counter of each model for which it is not 0."""
    found = (sample(name, number, model_name=each) for each, number in numbers.items() if number)
    yield from family(name, "counter", meaning, found)


def _gauge(name: str, meaning: str, label: str, found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the number of occurrences of each pair of a model and a value of `label`."""
    yield from family(
        name,
        "gauge",
        meaning,
        (
            sample(name, number, model_name=model, **{label: value})
            for (model, value), number in Counter(found).items()
        ),
    )
