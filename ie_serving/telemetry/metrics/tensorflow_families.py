"""Numbers of requests, inferences, loads and batches under the metric names of TensorFlow Serving.

Source: tensorflow_serving/util/prometheus_exporter.cc, tensorflow/core/framework/metrics.cc, and
the metrics of its servables, loaders and batching sessions. There are no HELP lines and no time
stamps, every sample has braces, durations are in microseconds. Totals without labels never fall:
they keep what versions and models have counted that are gone.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Protocol

from ie_serving.telemetry.metrics.batch_metrics import BatchMetrics
from ie_serving.telemetry.metrics.inferences import Inferences
from ie_serving.telemetry.metrics.requests import RequestMetrics
from ie_serving.telemetry.metrics.text import MICROSECONDS, Histogram, written
from ie_serving.telemetry.metrics.version_metrics import LiveVersion

REQUEST_COUNT = ":tensorflow:serving:request_count"
REQUEST_LATENCY = ":tensorflow:serving:request_latency"
RUNTIME_LATENCY = ":tensorflow:serving:runtime_latency"
GRAPH_RUNS = ":tensorflow:core:graph_runs"
SESSION_RUNS = ":tensorflow:core:direct_session_runs"
GRAPH_RUN_TIME = ":tensorflow:core:graph_run_time_usecs"
GRAPH_RUN_TIMES = ":tensorflow:core:graph_run_time_usecs_histogram"
GRAPH_BUILDS = ":tensorflow:core:graph_build_calls"
GRAPH_BUILD_TIME = ":tensorflow:core:graph_build_time_usecs"
LOAD_ATTEMPTS = ":tensorflow:cc:saved_model:load_attempt_count"
LOAD_LATENCY = ":tensorflow:cc:saved_model:load_latency"
QUEUING = ":tensorflow:serving:batching_session:queuing_latency"
INPUT_SIZE = ":tensorflow:serving:batching_session:input_batch_size"
PROCESSED_SIZE = ":tensorflow:serving:batching_session:processed_batch_size"
PADDING_SIZE = ":tensorflow:serving:batching_session:padding_size"

RUNTIME: Final = "TF1"
"""TensorFlow Serving's name for the runtime of a SavedModel."""
POOL: Final = "batch_threads"
"""Its default name of the threads that run batches."""
MOST_ASKED: Final = 100
"""Most names of unserved models with series of their own. Requests for further names are counted
under no name, since callers could make up any number of series."""
LONGEST_NAME: Final = 100
"""Characters of such a name that its series shows. The rest is cut off, so names that begin alike
share a series."""


class Counts(Protocol):
    """The series of one model; `page.ModelMetrics` is one."""

    requests: RequestMetrics
    batches: BatchMetrics
    attempts: Counter[tuple[str, str, str]]


class UnservedRequests:
    """Failed requests for models that are not served, by the name that was asked for."""

    def __init__(self) -> None:
        self._numbers: dict[str, Counter[str]] = {}

    def count(self, model: str, status: str) -> None:
        """Count a request; names beyond `MOST_ASKED` stay without a series."""
        name = model[:LONGEST_NAME]
        if name in self._numbers or len(self._numbers) < MOST_ASKED:
            self._numbers.setdefault(name, Counter())[status] += 1

    def over(self, models: Mapping[str, Counter[str]]) -> Mapping[str, Counter[str]]:
        """Add the requests to the statuses by model, where "" has those of all unknown names."""
        found = {name: Counter(numbers) for name, numbers in models.items()}
        for name, numbers in self._numbers.items():
            found.setdefault(name, Counter()).update(numbers)
            found.setdefault("", Counter()).subtract(numbers)
        return found


class InferenceTotals:
    """Inferences and compilations of all versions that were AVAILABLE when a page was written."""

    def __init__(self) -> None:
        self._records: dict[int, tuple[str, Inferences]] = {}
        self._past = Histogram()
        self._past_of: dict[str, Histogram] = {}
        self.builds = 0
        self.build_s = 0.0

    def look(self, live: Iterable[LiveVersion], models: Collection[str]) -> None:
        """Take note of the AVAILABLE versions, and keep the totals of those that are gone."""
        present = {id(each.inferences): each for each in live}
        for key, each in present.items():
            if key not in self._records:
                self._records[key] = each.name, each.inferences
                self.builds += 1
                self.build_s += each.load_s.get("compile_s", 0.0)
        for key in self._records.keys() - present.keys():
            name, record = self._records.pop(key)
            self._past.include(record.durations)
            self._past_of.setdefault(name, Histogram()).include(record.durations)
        for name in self._past_of.keys() - models:
            del self._past_of[name]

    def total(self) -> Histogram:
        """Return the times of all inferences."""
        found = Histogram()
        for each in (self._past, *(record.durations for _, record in self._records.values())):
            found.include(each)
        return found

    def by_model(self) -> Mapping[str, Histogram]:
        """Return the times of the inferences of each model."""
        found: dict[str, Histogram] = {}
        past = list(self._past_of.items())
        for name, each in (*past, *((n, record.durations) for n, record in self._records.values())):
            found.setdefault(name, Histogram()).include(each)
        return {name: each for name, each in found.items() if len(each)}


def tensorflow_lines(
    models: Mapping[str, Counts],
    gone: BatchMetrics,
    asked: UnservedRequests,
    inferred: InferenceTotals,
    live: Iterable[LiveVersion],
) -> Iterator[str]:
    """Yield the lines for dashboards of TensorFlow Serving.

    Args:
        models: series by model; those of "" are of all unknown models.
        gone: batches of models that were removed.
        asked: requests for unknown models by name.
        inferred: totals of inferences; it has looked at `live`.
        live: AVAILABLE versions.
    """
    yield from _requests({name: each.requests for name, each in models.items()}, asked)
    if inferred.builds:
        yield from _runtimes(inferred)
        yield from _graphs(inferred)
    yield from _loads(models, live)
    yield from _batches([gone, *(each.batches for each in models.values())])


def _requests(models: Mapping[str, RequestMetrics], asked: UnservedRequests) -> Iterator[str]:
    yield f"# TYPE {REQUEST_COUNT} counter"
    found = asked.over({name: Counter(each.statuses()) for name, each in models.items()})
    for model, numbers in found.items():
        for status, number in numbers.items():
            if number:
                yield f"{REQUEST_COUNT}{{{written(model_name=model, status=status)}}} {number}"
    yield f"# TYPE {REQUEST_LATENCY} histogram"
    for model, requests in models.items():
        for (api, entrypoint), latency in requests.latencies().items():
            labels = written(model_name=model, API=api, entrypoint=entrypoint)
            yield from latency.lines(REQUEST_LATENCY, labels, MICROSECONDS)


def _runtimes(inferred: InferenceTotals) -> Iterator[str]:
    yield f"# TYPE {RUNTIME_LATENCY} histogram"
    for model, each in inferred.by_model().items():
        labels = written(model_name=model, API="Predict", runtime=RUNTIME)
        yield from each.lines(RUNTIME_LATENCY, labels, MICROSECONDS)


def _graphs(inferred: InferenceTotals) -> Iterator[str]:
    total = inferred.total()
    for name, number in (
        (GRAPH_RUNS, len(total)),
        (SESSION_RUNS, len(total)),
        (GRAPH_RUN_TIME, round(total.sum * MICROSECONDS)),
        (GRAPH_BUILDS, inferred.builds),
        (GRAPH_BUILD_TIME, round(inferred.build_s * MICROSECONDS)),
    ):
        yield f"# TYPE {name} counter"
        yield f"{name}{{}} {number}"
    yield f"# TYPE {GRAPH_RUN_TIMES} histogram"
    yield from total.lines(GRAPH_RUN_TIMES, "", MICROSECONDS)


def _loads(models: Mapping[str, Counts], live: Iterable[LiveVersion]) -> Iterator[str]:
    paths: dict[tuple[str, str], str] = {}
    attempts: Counter[tuple[str, str]] = Counter()  # two models may have one path
    for model, each in models.items():
        for (version, path, status), number in each.attempts.items():
            paths[model, version] = path
            attempts[path, status] += number
    if attempts:
        yield f"# TYPE {LOAD_ATTEMPTS} counter"
    for (path, status), number in attempts.items():
        yield f"{LOAD_ATTEMPTS}{{{written(model_path=path, status=status)}}} {number}"
    latency: Counter[str] = Counter()
    for one in live:
        if path := paths.get((one.name, str(one.version)), ""):
            latency[path] += round(one.load_s.get("compile_s", 0.0) * MICROSECONDS)
    if latency:
        yield f"# TYPE {LOAD_LATENCY} counter"
    for path, took in latency.items():
        yield f"{LOAD_LATENCY}{{{written(model_path=path)}}} {took}"


def _batches(every: Iterable[BatchMetrics]) -> Iterator[str]:
    total = BatchMetrics()
    for each in every:
        total.include(each)
    if not total.reasons:
        return
    yield f"# TYPE {QUEUING} histogram"
    yield from total.queue_time.lines(QUEUING, written(thread_pool_name=POOL), MICROSECONDS)
    for name, sizes in ((INPUT_SIZE, total.rows), (PROCESSED_SIZE, total.processed)):
        yield f"# TYPE {name} histogram"
        yield from sizes.lines(name, "")
    yield f"# TYPE {PADDING_SIZE} histogram"
    for size, padding in sorted(total.padding.items()):
        yield from padding.lines(PADDING_SIZE, written(execution_batch_size=str(size)))
