"""Counts and latencies, under the names and in the text of TensorFlow Serving.

Source: tensorflow_serving/util/prometheus_exporter.cc and the metrics of its servables. Names start
with a colon, there are no HELP lines and no time stamps, every sample has braces. Durations are
microseconds.

One event loop writes and reads: plain integers, no locks. Whoever handles requests binds a model's
series once and then pays for an addition. Only models that are served have series of their own;
requests for other names count under `model_name=""`, so callers cannot grow the page.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

CONTENT_TYPE = "text/plain"

REQUEST_COUNT = ":tensorflow:serving:request_count"
REQUEST_LATENCY = ":tensorflow:serving:request_latency"

BOUNDS = tuple(10 * 1.8**power for power in range(33))
"""Upper bounds of the finite buckets, microseconds: 10 us to 1,475 s."""

_LE = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")


class Histogram:
    """Durations in microseconds, counted by bucket."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * len(_LE)
        self._sum = 0.0

    def observe(self, microseconds: float) -> None:
        """Add one duration."""
        self._counts[bisect_left(BOUNDS, microseconds)] += 1
        self._sum += microseconds

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Yield the samples; `labels` is their inside of the braces, without `le`."""
        total = 0
        for bound, count in zip(_LE, self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self._sum:.15g}"
        yield f"{name}_count{{{labels}}} {total}"


class ModelMetrics:
    """The series of one model name."""

    def __init__(self) -> None:
        self._requests: dict[str, int] = {}
        self._request_latency: dict[tuple[str, str], Histogram] = {}

    def count(self, status: str) -> None:
        """Count one finished request by the name of its status code, such as `NOT_FOUND`."""
        self._requests[status] = self._requests.get(status, 0) + 1

    def request_latency(self, api: str, entrypoint: str) -> Histogram:
        """Give the histogram of successful requests, from arrival to answer.

        Args:
            api: `Predict` over gRPC, `predict` over REST.
            entrypoint: `GRPC` or `REST`.
        """
        histogram = self._request_latency.get((api, entrypoint))
        if histogram is None:
            histogram = self._request_latency[api, entrypoint] = Histogram()
        return histogram

    def counts(self, model: str) -> Iterator[str]:
        """Yield the samples of the request counter."""
        for status, number in self._requests.items():
            yield f"{REQUEST_COUNT}{{{_labels(model_name=model, status=status)}}} {number}"

    def request_latencies(self, model: str) -> Iterator[str]:
        """Yield the samples of the request latency."""
        for (api, entrypoint), histogram in self._request_latency.items():
            labels = _labels(model_name=model, API=api, entrypoint=entrypoint)
            yield from histogram.lines(REQUEST_LATENCY, labels)


class Metrics:
    """The series of every model served by this worker."""

    def __init__(self) -> None:
        self._unknown = ModelMetrics()
        self._models: dict[str, ModelMetrics] = {"": self._unknown}

    def add(self, model: str) -> ModelMetrics:
        """Give a served model's series, new or as they stand."""
        return self._models.setdefault(model, ModelMetrics())

    def of(self, model: str) -> ModelMetrics:
        """Give the series to count a request under, whatever name it asked for."""
        return self._models.get(model, self._unknown)

    def served(self, model: str, api: str, entrypoint: str, microseconds: float) -> None:
        """Count a request that `model` has answered."""
        series = self.of(model)
        series.count("OK")
        series.request_latency(api, entrypoint).observe(microseconds)

    def drop(self, model: str) -> None:
        """Forget a model that is served no longer; who still holds its series may write on."""
        if model:
            self._models.pop(model, None)

    def text(self) -> str:
        """Write the page that Prometheus reads."""
        return "\n".join(_page(self._models)) + "\n"


def _page(models: Mapping[str, ModelMetrics]) -> Iterator[str]:
    yield f"# TYPE {REQUEST_COUNT} counter"
    for model, series in models.items():
        yield from series.counts(model)
    yield f"# TYPE {REQUEST_LATENCY} histogram"
    for model, series in models.items():
        yield from series.request_latencies(model)


def _labels(**labels: str) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    """Escape a label value. TF Serving leaves newlines, which breaks the page; they are escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
