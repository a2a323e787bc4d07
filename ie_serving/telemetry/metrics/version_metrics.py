"""Metrics of AVAILABLE versions, of models that are loaded on demand, and of split traffic.

Metrics of a version are read from the version itself whenever the page is read. So a version that
is gone leaves no series behind.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from ie_serving.telemetry.metrics.inferences import Inferences
from ie_serving.telemetry.metrics.requests import RequestMetrics
from ie_serving.telemetry.metrics.text import EVERY_SECOND, Histogram, family, sample, written

USES: Final = "ie_serving_on_demand_requests_total"
WAITS: Final = "ie_serving_on_demand_waits_total"
EVICTIONS: Final = "ie_serving_on_demand_unloads_total"
REFUSED: Final = "ie_serving_on_demand_refused_total"
LIMIT: Final = "ie_serving_on_demand_budget_limit_bytes"
HELD: Final = "ie_serving_on_demand_budget_held_bytes"
VERSION_MEMORY = "ie_serving_version_memory_bytes"
VERSION_LOAD = "ie_serving_version_load_seconds"
IN_FLIGHT = "ie_serving_in_flight_requests"
QUEUED = "ie_serving_queued_inferences"
STAGE = "ie_serving_stage_seconds"
SHARE: Final = "ie_serving_traffic_share"
ROLLBACKS: Final = "ie_serving_traffic_rollbacks_total"


class Usage:
    """The uses of all versions of one model.

    Attributes:
        count: number of requests that have begun.
        last: `time.monotonic()` of the last one.
    """

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last = time.monotonic()


class ResidencyMetrics:
    """Counts by model name. Belongs to one event loop.

    Args of the constructor, beside those that are attributes:
        resident: gives the resident bytes of this process.

    Attributes:
        budget: bytes of this process that a load must not exceed; 0: no limit.
        uses: the requests of each model that a version in memory has taken.
        waits: requests that found their model not loaded.
        unloads: unloads by model and cause, `room` or `idle`.
        refused: loads that the budget had no room for.
    """

    def __init__(self, budget: int = 0, resident: Callable[[], int] = lambda: 0) -> None:
        self.budget = budget
        self._resident = resident
        self.uses: dict[str, Usage] = {}
        self.waits: Counter[str] = Counter()
        self.unloads: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()

    def of(self, name: str) -> Usage:
        """Give a model's uses."""
        return self.uses.get(name) or self.uses.setdefault(name, Usage())

    def keep(self, names: Collection[str]) -> None:
        """Forget the models that are not configured any more."""
        kept = set(names)
        counted: Sequence[dict[str, Any]] = (self.uses, self.waits, self.refused)
        for counts in counted:
            for name in counts.keys() - kept:
                del counts[name]
        for key in [key for key in self.unloads if key[0] not in kept]:
            del self.unloads[key]

    def lines(self) -> Iterator[str]:
        """Yield the samples."""
        uses = [(name, usage.count) for name, usage in list(self.uses.items()) if usage.count]
        yield from family(
            USES,
            "counter",
            "Requests that models loaded on demand have begun to answer.",
            (sample(USES, number, model_name=name) for name, number in uses),
        )
        yield from family(
            WAITS,
            "counter",
            "Requests that found their model not loaded.",
            (sample(WAITS, n, model_name=name) for name, n in list(self.waits.items())),
        )
        yield from family(
            EVICTIONS,
            "counter",
            "Models loaded on demand that were unloaded again.",
            (
                sample(EVICTIONS, number, model_name=name, cause=cause)
                for (name, cause), number in list(self.unloads.items())
            ),
        )
        yield from family(
            REFUSED,
            "counter",
            "Loads on demand that the budget had no room for.",
            (sample(REFUSED, n, model_name=name) for name, n in list(self.refused.items())),
        )
        if budget := self.budget:
            limit, held = [sample(LIMIT, budget)], [sample(HELD, self._resident())]
            yield from family(LIMIT, "gauge", "Bytes that a load must not exceed.", limit)
            yield from family(HELD, "gauge", "Resident bytes of the processes.", held)

    def usage(self) -> dict[str, int] | None:
        """Give the budget and the resident bytes of this process; None without a budget."""
        return {"limit": self.budget, "held": self._resident()} if self.budget else None


class LiveVersion(Protocol):
    """An AVAILABLE version; `models.version.handle.Servable` is one."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def holders(self) -> int:
        """Requests that use it now."""

    @property
    def inferences(self) -> Inferences:
        """Times of its inferences."""

    @property
    def load_s(self) -> Mapping[str, float]:
        """Seconds of each step of its load, such as `fetch_s`."""

    @property
    def memory(self) -> int | None:
        """Bytes that its load has added; None if not known."""


LiveVersions = Callable[[], Iterable[LiveVersion]]
"""Returns the AVAILABLE versions of all models."""


def version_lines(
    live: Iterable[LiveVersion], requests: Mapping[str, RequestMetrics]
) -> Iterator[str]:
    """Yield the samples of every version.

    Args:
        live: AVAILABLE versions.
        requests: requests of the models, by name.
    """
    found = [(each, {"model_name": each.name, "version": str(each.version)}) for each in live]
    yield from family(
        VERSION_MEMORY,
        "gauge",
        "What the load of the version has added to the resident memory.",
        (
            sample(VERSION_MEMORY, each.memory, **of)
            for each, of in found
            if each.memory is not None
        ),
    )
    yield from family(
        VERSION_LOAD,
        "gauge",
        "Seconds that each step of the version's load took.",
        (
            sample(VERSION_LOAD, took, **of, step=step.removesuffix("_s"))
            for each, of in found
            for step, took in each.load_s.items()
        ),
    )
    yield from family(
        IN_FLIGHT,
        "gauge",
        "Requests that use the version now.",
        (sample(IN_FLIGHT, each.holders, **of) for each, of in found),
    )
    yield from family(
        QUEUED,
        "gauge",
        "Inferences that wait for an infer request now.",
        (sample(QUEUED, each.inferences.waiting, **of) for each, of in found),
    )
    yield from family(
        STAGE,
        "histogram",
        "Seconds that each stage of a Predict took; queue and inference of each inference.",
        _stages([each for each, _ in found], requests),
    )


def _stages(live: Iterable[LiveVersion], requests: Mapping[str, RequestMetrics]) -> Iterator[str]:
    for each in live:
        for stage, histogram in (*_inferences(each), *_stages_of(each, requests)):
            labels = written(model_name=each.name, version=str(each.version), stage=stage)
            yield from histogram.lines(STAGE, labels, shown=EVERY_SECOND)


def _inferences(version: LiveVersion) -> Iterator[tuple[str, Histogram]]:
    ran = version.inferences.durations
    if len(ran):
        yield "queue", version.inferences.waits
        yield "inference", ran


def _stages_of(
    version: LiveVersion, requests: Mapping[str, RequestMetrics]
) -> Iterator[tuple[str, Histogram]]:
    model = requests.get(version.name)
    for (number, step), histogram in (model.stages() if model else {}).items():
        if number == str(version.version):
            yield step, histogram


Traffic = tuple[str, Mapping[int, float], Mapping[int, int]]
"""Model name, shares from 0 to 1 and rollbacks, both by version."""


def traffic_lines(models: Callable[[], list[Traffic]]) -> Iterator[str]:
    """Yield the samples."""
    found = models()
    yield from family(
        SHARE,
        "gauge",
        "Share of the requests without version or label that a version answers.",
        (
            sample(SHARE, share, model_name=name, version=str(version))
            for name, shares, _ in found
            for version, share in shares.items()
        ),
    )
    yield from family(
        ROLLBACKS,
        "counter",
        "How often a version has lost its share to the one with the largest.",
        (
            sample(ROLLBACKS, count, model_name=name, version=str(version))
            for name, _, rollbacks in found
            for version, count in rollbacks.items()
        ),
    )
