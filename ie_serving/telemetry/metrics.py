"""Counts and latencies, under the names and in the text of TensorFlow Serving.

Source: tensorflow_serving/util/prometheus_exporter.cc and the metrics of its servables. Names start
with a colon, there are no HELP lines and no time stamps, every sample has braces. Durations are
microseconds.

One event loop writes and reads: plain integers, no locks. Whoever handles requests binds a model's
series once and then pays for an addition. Only models that are served have series of their own;
requests for other names count under `model_name=""`, so callers cannot grow the page.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ie_serving.telemetry.batches import BatchMetrics, batch_lines
from ie_serving.telemetry.sequences import SequenceMetrics, sequence_lines

CONTENT_TYPE = "text/plain"

REQUEST_COUNT = ":tensorflow:serving:request_count"
REQUEST_LATENCY = ":tensorflow:serving:request_latency"

LISTING_FAILURES = ":ie_serving:listing_failures"
VERSIONS_CHANGED = ":ie_serving:served_versions_changed"
LOADS = ":ie_serving:loads"
VERSIONS = ":ie_serving:versions"
VERSION_MEMORY = ":ie_serving:version_memory_bytes"
SIGNATURES = ":ie_serving:signatures"

BOUNDS = tuple(10 * 1.8**power for power in range(33))
"""Upper bounds of the finite buckets, microseconds: 10 us to 1,475 s, as in TensorFlow Serving, so
that its dashboards and alerts read ours."""

_LE = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")


Versions = Callable[[], Iterable[tuple[str, str]]]
"""Gives the model name and the state of each version."""

Precisions = Callable[[], Iterable[tuple[str, str]]]
"""Gives the model name and the precision of each signature that is served."""

Memory = Callable[[], Iterable[tuple[str, int, int]]]
"""Gives the model name, the version and the bytes that its load has added."""


class Served:
    """Successful requests of one model and API: their number, and their latencies by bucket.

    Args of the constructor:
        requests: the model's counter by status, of which this counts `OK`.
    """

    __slots__ = ("_buckets", "_requests", "_sum")

    def __init__(self, requests: dict[str, int]) -> None:
        self._requests = requests
        self._buckets = [0] * len(_LE)
        self._sum = 0.0

    def add(self, microseconds: float) -> None:
        """Count one request, which took so long from its arrival to its encoded reply."""
        requests = self._requests
        requests["OK"] = requests.get("OK", 0) + 1
        # By bucket here, summed up when the page is read: thousands of times a second against one.
        self._buckets[bisect_left(BOUNDS, microseconds)] += 1
        self._sum += microseconds

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Yield the samples, none before the first request; `labels` stand before `le`."""
        if not any(self._buckets):
            return
        total = 0
        for bound, count in zip(_LE, self._buckets, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self._sum:.15g}"
        yield f"{name}_count{{{labels}}} {total}"


class ModelMetrics:
    """The series of one model name.

    Attributes:
        batches: of requests that were gathered.
        sequences: of requests that share a state.
    """

    def __init__(self) -> None:
        self.batches = BatchMetrics(BOUNDS)
        self.sequences = SequenceMetrics()
        self._requests: dict[str, int] = {}
        self._served: dict[tuple[str, str], Served] = {}
        self._listing_failures = 0
        self._versions_changed = 0
        self._loads: dict[str, int] = {}

    def count(self, status: str) -> None:
        """Count one finished request by the name of its status code, such as `NOT_FOUND`."""
        self._requests[status] = self._requests.get(status, 0) + 1

    def served(self, api: str, entrypoint: str) -> Served:
        """Give what counts the successful requests of one API.

        It stands on the page once a request is counted.

        Args:
            api: `Predict` over gRPC, `predict` over REST.
            entrypoint: `GRPC` or `REST`.
        """
        served = self._served.get((api, entrypoint))
        if served is None:
            served = self._served[api, entrypoint] = Served(self._requests)
        return served

    def count_listing_failure(self) -> None:
        """Count one listing of the model's repository that failed."""
        self._listing_failures += 1

    def count_load(self, succeeded: bool) -> None:
        """Count one load of a version that has ended."""
        result = "ok" if succeeded else "failed"
        self._loads[result] = self._loads.get(result, 0) + 1

    def loads(self, model: str) -> Iterator[str]:
        """Yield the samples of the loads, none before the first."""
        for result, number in self._loads.items():
            yield f"{LOADS}{{{_labels(model_name=model, result=result)}}} {number}"

    def listing_failures(self, model: str) -> Iterator[str]:
        """Yield the sample of the failed listings, none before the first."""
        if self._listing_failures:
            yield f"{LISTING_FAILURES}{{{_labels(model_name=model)}}} {self._listing_failures}"

    def count_changed_version(self) -> None:
        """Count one change of the files of a version that serves."""
        self._versions_changed += 1

    def versions_changed(self, model: str) -> Iterator[str]:
        """Yield the sample of the changed versions, none before the first."""
        if self._versions_changed:
            yield f"{VERSIONS_CHANGED}{{{_labels(model_name=model)}}} {self._versions_changed}"

    def counts(self, model: str) -> Iterator[str]:
        """Yield the samples of the request counter."""
        for status, number in self._requests.items():
            yield f"{REQUEST_COUNT}{{{_labels(model_name=model, status=status)}}} {number}"

    def request_latencies(self, model: str) -> Iterator[str]:
        """Yield the samples of the request latency."""
        for (api, entrypoint), served in self._served.items():
            labels = _labels(model_name=model, API=api, entrypoint=entrypoint)
            yield from served.lines(REQUEST_LATENCY, labels)


class Metrics:
    """The series of every model served by this worker."""

    def __init__(self) -> None:
        self._unknown = ModelMetrics()
        self._models: dict[str, ModelMetrics] = {"": self._unknown}
        self._versions: Versions = lambda: ()
        self._precisions: Precisions = lambda: ()
        self._memory: Memory = lambda: ()

    def add(self, model: str) -> ModelMetrics:
        """Give a served model's series, new or as they stand."""
        return self._models.setdefault(model, ModelMetrics())

    def of(self, model: str) -> ModelMetrics:
        """Give the series to count a request under, whatever name it asked for."""
        return self._models.get(model, self._unknown)

    def keep(self, models: Collection[str]) -> None:
        """Have series for exactly these models, also for one that never answers.

        Who still holds the series of a model that is dropped may write on.
        """
        # "" stays: requests for names that nobody serves are counted there.
        for name in [name for name in self._models if name and name not in models]:
            del self._models[name]
        for name in models:
            self.add(name)

    def show_versions(self, versions: Versions) -> None:
        """Ask `versions` for the states whenever the page is read."""
        self._versions = versions

    def show_precisions(self, precisions: Precisions) -> None:
        """Ask `precisions` for those in use whenever the page is read."""
        self._precisions = precisions

    def show_memory(self, memory: Memory) -> None:
        """Ask `memory` for what the versions take whenever the page is read."""
        self._memory = memory

    def text(self) -> str:
        """Write the page that Prometheus reads."""
        gauges = [*_gauge(VERSIONS, "state", self._versions())]
        gauges += _gauge(SIGNATURES, "precision", self._precisions())
        gauges += _memory_lines(self._memory())
        return "\n".join([*_page(self._models), *gauges]) + "\n"


def _page(models: Mapping[str, ModelMetrics]) -> Iterator[str]:
    yield f"# TYPE {REQUEST_COUNT} counter"
    for model, series in models.items():
        yield from series.counts(model)
    yield f"# TYPE {REQUEST_LATENCY} histogram"
    for model, series in models.items():
        yield from series.request_latencies(model)
    failures = [line for name, series in models.items() for line in series.listing_failures(name)]
    if failures:
        yield f"# TYPE {LISTING_FAILURES} counter"
        yield from failures
    changed = [line for name, series in models.items() for line in series.versions_changed(name)]
    if changed:
        yield f"# TYPE {VERSIONS_CHANGED} counter"
        yield from changed
    loads = [line for name, series in models.items() for line in series.loads(name)]
    if loads:
        yield f"# TYPE {LOADS} counter"
        yield from loads
    yield from batch_lines([(_labels(model_name=name), m.batches) for name, m in models.items()])
    yield from sequence_lines(
        [(_labels(model_name=name), m.sequences) for name, m in models.items()]
    )


def _gauge(name: str, label: str, found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield how often each pair of a model and a value of `label` is there."""
    counted = Counter(found)
    if counted:
        yield f"# TYPE {name} gauge"
    for (model, value), number in counted.items():
        yield f"{name}{{{_labels(model_name=model, **{label: value})}}} {number}"


def _memory_lines(memory: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    lines = [
        f"{VERSION_MEMORY}{{{_labels(model_name=name, version=str(version))}}} {size}"
        for name, version, size in memory
    ]
    if lines:
        yield f"# TYPE {VERSION_MEMORY} gauge"
        yield from lines


def _labels(**labels: str) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    """Escape a label value. TF Serving leaves newlines, which breaks the page; they are escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
