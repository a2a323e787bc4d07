"""The metrics of all workers as those of one server: the sum, but for what all tell alike."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

ALIKE: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    # What each worker tells of the whole server, which the first one has told already.
    "ie_serving_versions": lambda values: values[0],
    "ie_serving_signatures": lambda values: values[0],
    # Steps of the load of one version, which each worker makes at the same time.
    "ie_serving_version_load_seconds": max,
    "process_start_time_seconds": min,
}
"""Families that are not summed, and what becomes of the numbers of several workers instead."""

_GROWING: Final = (" counter", " histogram")
"""Ends of the lines that give the kinds of numbers which only grow."""


def counted(page: bytes) -> dict[str, float]:
    """Give the numbers of the counters and histograms of a page, by the name with the labels."""
    families: dict[str, list[str]] = {}
    samples: dict[str, dict[str, list[float]]] = {}
    _read(page.decode(), families, samples)
    return {
        name: number
        for family, found in samples.items()
        if any(head.endswith(_GROWING) for head in families[family])
        for name, (number, *_) in found.items()
    }


def summed(pages: Sequence[bytes], gone: Mapping[str, float]) -> bytes:
    """Give one page for several of the same program.

    Families stand as on the first page; samples and families of later ones follow behind.

    Args:
        pages: of all workers.
        gone: what workers that have ended had counted; of series that are still there it is added.
    """
    families: dict[str, list[str]] = {}
    samples: dict[str, dict[str, list[float]]] = {}
    for page in pages:
        _read(page.decode(), families, samples)
    for found in samples.values():
        for name in found.keys() & gone.keys():
            found[name].append(gone[name])
    lines = []
    for family, heads in families.items():
        lines += heads
        unite = ALIKE.get(family, sum)
        lines += [f"{name} {_written(unite(found))}" for name, found in samples[family].items()]
    return ("\n".join(lines) + "\n").encode()


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
