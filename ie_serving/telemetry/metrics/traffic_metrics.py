"""Metrics of the models whose traffic is split."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ie_serving.telemetry.metrics.text import family, sample

SHARE: Final = "ie_serving_traffic_share"
ROLLBACKS: Final = "ie_serving_traffic_rollbacks_total"

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
