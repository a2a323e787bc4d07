"""Metrics of the models that are loaded on demand."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from ie_serving.telemetry.metrics.text import family, sample

USES: Final = "ie_serving_on_demand_requests_total"
WAITS: Final = "ie_serving_on_demand_waits_total"
EVICTIONS: Final = "ie_serving_on_demand_unloads_total"
REFUSED: Final = "ie_serving_on_demand_refused_total"
LIMIT: Final = "ie_serving_on_demand_budget_limit_bytes"
HELD: Final = "ie_serving_on_demand_budget_held_bytes"


class Usage:
    """The uses of all versions of one model.

    Attributes:
        count: how many requests have begun.
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
        unloads: by model and cause, `room` or `idle`.
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
