"""The allow-list `onnx.txt`: what is known not to be right. It can only shrink. Pure.

A line names a test, the places where its answer is not right (`*` is each word of that axis), what
became of it there, and the cause as it was seen first. What a run finds beyond it is a fault; what
has become better has to leave the list.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby, product
from types import MappingProxyType
from typing import Any

from tests.suites.judging import Kind, Outcome
from tests.suites.modes import AXES, Place

ANY = "*"
LONGEST_CAUSE = 80

WORSE: Mapping[Kind, int] = MappingProxyType(
    {Kind.REFUSED: 1, Kind.WRONG: 2, Kind.CRASH: 3, Kind.HANG: 3}
)
"""How bad each kind is; the other ones are as good as right."""

Key = tuple[str, Place]
"""A test's name, and one of its places."""

Entries = Mapping[Key, Outcome]


Axes = Mapping[str, Sequence[str]]
"""Words that name a place, by what they say."""


def read(text: str, axes: Axes = AXES, place: Callable[..., Any] = Place) -> dict[Key, Outcome]:
    """Read the list."""
    entries = {}
    for line in text.splitlines():
        name, *words, rest = line.split(None, 1 + len(axes))
        kind, _, cause = rest.partition(": ")
        listed = zip(words, axes.values(), strict=True)
        for each in product(*(axis if word == ANY else (word,) for word, axis in listed)):
            entries[name, place(*each)] = Outcome(Kind(kind), cause)
    return entries


def written(entries: Entries, axes: Axes = AXES) -> str:
    """Write the list: sorted, as few lines as the axes allow."""
    lines = []
    ordered = sorted(entries, key=lambda key: (key[0], entries[key].kind.value, key[1]))
    for (name, kind), keys in groupby(ordered, lambda key: (key[0], entries[key].kind.value)):
        found = [place for _, place in keys]
        cause = short(entries[name, found[0]].cause)
        lines += [f"{name} {' '.join(words)} {kind}: {cause}\n" for words in patterns(found, axes)]
    return "".join(lines)


def patterns(found: Collection[Place], axes: Axes = AXES) -> Iterator[tuple[str, ...]]:
    """Patterns of words and `*` that together are exactly these places, and disjoint."""
    yield from _patterns({tuple(place) for place in found}, list(axes.values()))


def _patterns(
    found: set[tuple[str, ...]], axes: Sequence[Sequence[str]]
) -> Iterator[tuple[str, ...]]:
    if not axes:
        yield ()
        return
    rests = {word: {each[1:] for each in found if each[0] == word} for word in axes[0]}
    if len({frozenset(rest) for rest in rests.values()}) == 1:
        rests = {ANY: rests[axes[0][0]]}
    for word, rest in rests.items():
        if rest:
            yield from ((word, *pattern) for pattern in _patterns(rest, axes[1:]))


def short(cause: str) -> str:
    """One line of a cause: enough to know it by."""
    line = " ".join(cause.split())
    return line if len(line) <= LONGEST_CAUSE else f"{line[:LONGEST_CAUSE]}..."


def worse(measured: Entries, listed: Entries) -> dict[Key, Outcome]:
    """What is worse than the list says."""
    return {key: each for key, each in measured.items() if _rank(each) > _rank(listed.get(key))}


def better(measured: Entries, listed: Entries) -> dict[Key, Outcome]:
    """What the list says of answers that are less bad than that."""
    return {
        key: each for key, each in listed.items() if _rank(measured.get(key, each)) < _rank(each)
    }


def shrunk(measured: Entries, listed: Entries) -> dict[Key, Outcome]:
    """The list without what has become right; what has become less bad is what it now is."""
    now = {key: measured[key] for key in better(measured, listed)}
    return {key: each for key, each in (dict(listed) | now).items() if _rank(each)}


def _rank(outcome: Outcome | None) -> int:
    return WORSE.get(outcome.kind, 0) if outcome else 0
