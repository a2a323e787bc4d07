"""How long a regular expression can take: a bound on the length of strings that it is given.

RE2 takes time in proportion to a string. Python's `re` tries one way after the other, holds the
interpreter meanwhile and cannot be stopped, so what it can be made to try is bounded here:

- A repetition of what varies, as `(a+)+` or `(a|ab)*`, tries exponentially many ways: refused.
- Repetitions beside each other, as in `a*b*c`, each divide the string where they like: with n
  characters and d of them, n**d ways, and a search begins at each character. That decides how long
  a string may be.

The bound is what the pattern could cost for the worst string, without a look at which characters
its repetitions take.
"""

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_STEPS = 1 << 24
"""Steps of `re` for one string. It takes 10 to 30 ns for one, so the interpreter is held for less
than half a second by the worst string."""
SHORTEST = 64
"""Characters that a pattern must allow. One that takes only shorter strings is refused at load."""
_ASCII = [chr(code) for code in range(128)]
_OTHERS = "é€ß😀"
_OTHER = "other"
"""Stands for all characters beyond ASCII, which are not told apart."""


class Refused(Exception):
    """A pattern that `re` might read in another way, or for which it might take too long."""


class Kind(enum.Enum):
    """What a piece of a pattern is."""

    CHARACTER = "character"  # takes one: a letter, a class, a point
    PLACE = "place"  # takes none: ^, $, \b
    OPEN = "open"
    CLOSE = "close"
    OR = "or"
    REPEAT = "repeat"


@dataclass(frozen=True)
class Piece:
    """A piece of a pattern.

    Attributes:
        kind: what it is.
        text: as `re` writes it.
        least, most: of a repetition, how often; `most` is None where it has no end.
    """

    kind: Kind
    text: str
    least: int = 1
    most: int | None = 1


@dataclass(frozen=True)
class Cost:
    """What a part of a pattern can make `re` try.

    Attributes:
        firsts: characters with which it can begin.
        at_start: it fails at once unless it begins where the string does.
        empty: it may take no character.
        varies: it may take a string in several ways.
        choices: ways that do not grow with the string.
        degree: repetitions without end, beside each other.
        degree_before_end: the same without one that ends it. Nothing behind that can fail in a
            search, so it is not tried again.
    """

    firsts: frozenset[str] = frozenset()
    at_start: bool = False
    empty: bool = True
    varies: bool = False
    choices: int = 1
    degree: int = 0
    degree_before_end: int = 0

    def longest_matched(self) -> int:
        """Tell how many characters may be compared with the pattern as a whole."""
        return self._longest(max(self.degree, 1))

    def longest_searched(self) -> int:
        """Tell how many characters the pattern may be searched in, from each of them on."""
        return self._longest(max(self.degree_before_end + (not self.at_start), 1))

    def _longest(self, degree: int) -> int:
        root = (MOST_STEPS / self.choices) ** (1 / degree)
        return int(root + 1e-6)  # the cube root of 256**3 comes out below 256


def cost_of(pieces: Iterable[Piece]) -> Cost:
    """Bound what a pattern can cost.

    Raises:
        Refused: too much for strings of any length.
    """
    # Of each group that is open: its alternatives, the last of which still grows.
    opened: list[list[list[Cost]]] = [[[]]]
    for piece in pieces:
        parts = opened[-1][-1]
        if piece.kind is Kind.OPEN:
            opened.append([[]])
        elif piece.kind is Kind.CLOSE and len(opened) > 1:
            closed = opened.pop()
            opened[-1][-1].append(_one_of([_in_turn(each) for each in closed]))
        elif piece.kind is Kind.OR:
            opened[-1].append([])
        elif piece.kind is Kind.REPEAT and parts:
            parts.append(_repeated(parts.pop(), piece))
        elif piece.kind is Kind.CHARACTER:
            parts.append(Cost(_taken(piece.text), empty=False))
        elif piece.kind is Kind.PLACE:
            parts.append(Cost(at_start=piece.text in ("^", r"\A")))
    whole = _one_of([_in_turn(each) for each in opened[0]])
    if min(whole.longest_matched(), whole.longest_searched()) < SHORTEST:
        raise Refused(
            f"too many repetitions and alternatives: Python would take too long for {SHORTEST}"
            " characters"
        )
    return whole


def _taken(character: str) -> frozenset[str]:
    found = re.compile(character, re.ASCII)
    taken = {each for each in _ASCII if found.match(each)}
    if not character.isascii() or any(found.match(each) for each in _OTHERS):
        taken.add(_OTHER)
    return frozenset(taken)


def _in_turn(parts: Sequence[Cost]) -> Cost:
    firsts: set[str] = set()
    choices, degree, before_end = 1, 0, 0
    for part in parts:
        choices *= part.choices
        before_end = degree + part.degree_before_end
        degree += part.degree
    for part in parts:
        firsts |= part.firsts
        if not part.empty:
            break
    empty = all(part.empty for part in parts)
    varies = any(part.varies for part in parts)
    at_start = bool(parts) and parts[0].at_start
    return Cost(frozenset(firsts), at_start, empty, varies, choices, degree, before_end)


def _one_of(parts: Sequence[Cost]) -> Cost:
    if len(parts) == 1:
        return parts[0]
    every = frozenset(first for part in parts for first in part.firsts)
    overlap = len(every) < sum(len(part.firsts) for part in parts)
    empty = any(part.empty for part in parts)
    return Cost(
        every,
        all(part.at_start for part in parts),
        empty,
        overlap or empty or any(part.varies for part in parts),
        sum(part.choices for part in parts),
        max(part.degree for part in parts),
        max(part.degree_before_end for part in parts),
    )


def _repeated(part: Cost, repeat: Piece) -> Cost:
    least, most = repeat.least, repeat.most
    if (most is None or most > 1) and (part.varies or part.empty):
        raise Refused(
            "a repetition of what itself repeats, may be empty, or has alternatives that begin"
            " alike: Python would take exponentially long"
        )
    return Cost(
        part.firsts,
        False,
        part.empty or least == 0,
        part.varies or least != most,
        part.choices * max(least, most or 1, 1) * (2 if most == 1 and least == 0 else 1),
        part.degree + (most is None),
        part.degree if most is None else part.degree_before_end,
    )
