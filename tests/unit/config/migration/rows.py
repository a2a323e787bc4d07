"""One row for each flag and variable of another server: what it does here.

The rows are the tables of docs/guide/migration-*.md (`make configuration` writes them), and the
tests of this directory: a row says how the word is given, and what must then follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Outcome(Enum):
    """What follows when a word is given."""

    TAKEN = auto()
    """The settings hold `expected`, and nothing is warned of."""
    ALREADY = auto()
    """The settings stay as they are, and nothing is warned of: it is so without the word."""
    NO_EFFECT = auto()
    """The settings stay as they are, and a warning names the word."""
    MAPPED = auto()
    """The settings hold `expected`, and a warning names the word."""
    REFUSED = auto()
    """The start fails, and what is said holds `expected`."""
    ENDS = auto()
    """The command does what is asked and ends with exit code 0; the output holds `expected`."""


BEGINNINGS: Mapping[Outcome, str] = {
    Outcome.TAKEN: "the same; ",
    Outcome.ALREADY: "",
    Outcome.NO_EFFECT: "no effect: ",
    Outcome.MAPPED: "",
    Outcome.REFUSED: "refused: ",
    Outcome.ENDS: "the same; ",
}
"""How the cells of the page begin."""


@dataclass(frozen=True)
class Row:
    """One word of another server.

    Attributes:
        word: a flag without dashes, or a variable.
        given: its value, as that server's users write it; for ENDS the command line.
        expected: part of what follows; of settings a line `PLACE=VALUE`.
        note: what differs, for the page.
        beside: flags that have to be there as well.
    """

    word: str
    given: str
    outcome: Outcome
    expected: str = ""
    note: str = ""
    beside: tuple[str, ...] = ()

    @property
    def here(self) -> str:
        """The cell of the page."""
        return f"{BEGINNINGS[self.outcome]}{self.note}".removesuffix("; ")


def taken(word: str, given: str, expected: str, note: str = "", *beside: str) -> Row:
    return Row(word, given, Outcome.TAKEN, expected, note, beside)


def already(word: str, given: str, note: str) -> Row:
    return Row(word, given, Outcome.ALREADY, "", note)


def no_effect(word: str, given: str, note: str) -> Row:
    return Row(word, given, Outcome.NO_EFFECT, word, note)


def mapped(word: str, given: str, expected: str, note: str) -> Row:
    return Row(word, given, Outcome.MAPPED, expected, note)


def refused(word: str, given: str, note: str, expected: str = "") -> Row:
    return Row(word, given, Outcome.REFUSED, expected or word, note)


def ends(word: str, line: str, expected: str, note: str = "") -> Row:
    return Row(word, line, Outcome.ENDS, expected, note)
