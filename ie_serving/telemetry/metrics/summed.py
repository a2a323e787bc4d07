"""The metrics of all workers as those of one server: the sum, but for what all tell alike."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

ALIKE: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    # What each worker tells of the whole server, which the first one has told already.
    "ie_serving_versions": lambda values: values[0],
    "ie_serving_signatures": lambda values: values[0],
    "ie_serving_compared_signatures": lambda values: values[0],
    # Steps of the load of one version, which each worker makes at the same time.
    "ie_serving_version_load_seconds": max,
    "process_start_time_seconds": min,
}
"""Families that are not summed, and what becomes of the numbers of several workers instead."""

_ABOUT: Final = re.compile(r'[{,](?:model_name|name|version)="((?:[^"\\]|\\.)+)"')
"""Labels of model and version. Empty ones say nothing: a request for a status is of no version."""
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


def summed(pages: Sequence[bytes], gone: Mapping[str, float], *, whole: bool = True) -> bytes:
    """Give one page for several of the same program.

    Families stand as on the first page; samples and families of later ones follow behind.

    Args:
        pages: of the workers that were heard.
        gone: what workers that have ended had counted; it is added where the model and version are
            still on a page, as those that are unloaded have no series.
        whole: the pages are of all workers that take requests. Where one was not heard, nobody can
            tell that a model is unloaded: the others may not have loaded it yet.
    """
    families: dict[str, list[str]] = {}
    samples: dict[str, dict[str, list[float]]] = {}
    for page in pages:
        _read(page.decode(), families, samples)
    there = {_of(name) for found in samples.values() for name in found}
    for name, number in gone.items():
        family = _family(name, samples)
        if family and (not whole or _of(name) in there):
            samples[family].setdefault(name, []).append(number)
    lines = []
    for family, heads in families.items():
        lines += heads
        unite = ALIKE.get(family, sum)
        lines += [f"{name} {_written(unite(found))}" for name, found in samples[family].items()]
    return ("\n".join(lines) + "\n").encode()


def _of(name: str) -> tuple[str, ...]:
    """Give what a series is about: its labels of model and version."""
    return tuple(_ABOUT.findall(name))


def _family(name: str, known: Collection[str]) -> str:
    """Give the family of a sample; empty where no page has it."""
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
