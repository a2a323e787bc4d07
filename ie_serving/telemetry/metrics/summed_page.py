"""Adds up the metrics of all workers into one page, except those that are equal in all workers."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from statistics import fmean
from typing import Final

ALIKE: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    # Describes the whole server in each worker, so the first one's value is taken.
    "ie_serving_versions": lambda values: values[0],
    "ie_serving_signatures": lambda values: values[0],
    "ie_serving_compared_signatures": lambda values: values[0],
    # Each worker divides, and rolls back, for itself: of all requests this share goes there.
    "ie_serving_traffic_share": fmean,
    # Steps of the load of one version, which all workers do at the same time.
    "ie_serving_version_load_seconds": max,
    "process_start_time_seconds": min,
    "ie_serving_tls_certificate_expires_timestamp_seconds": min,
}
"""Families that are not summed, with the function that combines the workers' values."""

_ABOUT: Final = re.compile(r'[{,](?:model_name|name|version)="((?:[^"\\]|\\.)+)"')
"""Labels of model and version. Empty ones are ignored: a status request has no version."""
_GROWING: Final = (" counter", " histogram")
"""Ends of the TYPE lines of numbers that only grow."""


def counted(page: bytes) -> dict[str, float]:
    """Return the counters and histograms of a page, by the name with the labels."""
    families: dict[str, list[str]] = {}
    samples: dict[str, dict[str, list[float]]] = {}
    _read(page.decode(), families, samples)
    return {
        name: number
        for family, found in samples.items()
        if any(head.endswith(_GROWING) for head in families[family])
        for name, (number, *_) in found.items()
    }


def summed(pages: Sequence[bytes], gone: Mapping[str, float], *, whole: bool = True) -> bytes:
    """Combine several pages of the same program into one.

    Families stand in the order of the first page; samples and families of later ones follow.

    Args:
        pages: pages of the workers that answered.
        gone: counts of workers that have ended; they are added if model and version are still on a
            page, since unloaded ones have no series.
        whole: the pages are of all workers that accept requests. If one is missing, a model that
            is on no page may not be unloaded: other workers may not have loaded it yet.
    """
    families: dict[str, list[str]] = {}
    samples: dict[str, dict[str, list[float]]] = {}
    for page in pages:
        _read(page.decode(), families, samples)
    there = {_model_labels(name) for found in samples.values() for name in found}
    for name, number in gone.items():
        family = _family(name, samples)
        if family and (not whole or _model_labels(name) in there):
            samples[family].setdefault(name, []).append(number)
    lines = []
    for family, heads in families.items():
        lines += heads
        unite = ALIKE.get(family, sum)
        lines += [f"{name} {_written(unite(found))}" for name, found in samples[family].items()]
    return ("\n".join(lines) + "\n").encode()


def _model_labels(name: str) -> tuple[str, ...]:
    """Return the labels of model and version of a series."""
    return tuple(_ABOUT.findall(name))


def _family(name: str, known: Collection[str]) -> str:
    """Return the family of a sample; empty if no page has it."""
    bare = name.partition("{")[0]
    names = (bare, *(bare.removesuffix(end) for end in ("_bucket", "_sum", "_count")))
    return next((each for each in names if each in known), "")


def _read(
    page: str, families: dict[str, list[str]], samples: dict[str, dict[str, list[float]]]
) -> None:
    family = ""
    for line in page.splitlines():
        if line.startswith("# "):
            _, _, family, *_ = line.split(" ", 3)
            heads = families.setdefault(family, [])
            samples.setdefault(family, {})
            if line not in heads:
                heads.append(line)
        elif line:
            name, _, value = line.rpartition(" ")
            samples[family].setdefault(name, []).append(float(value))


def _written(value: float) -> str:
    return str(int(value)) if value.is_integer() else f"{value:.15g}"
