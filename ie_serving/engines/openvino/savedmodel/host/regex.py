r"""Regular expressions of RE2, run by Python's `re` where both mean the same.

TensorFlow matches characters of UTF-8 with RE2. A pattern is taken piece by piece: what both read
alike stays, what has an equal in `re` is written in its way (`\z`, `$`, `\s`), and anything else is
refused, so that no pattern is answered in another way than TensorFlow would. `regex_cost.py` bounds
how long `re` may take.

Source: the syntax page of RE2, and RE2::GlobalReplace.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ie_serving.core.errors import InvalidRequest, InvalidTensor
from ie_serving.engines.openvino.savedmodel.host.regex_cost import Kind, Piece, Refused, cost_of

_SPACES = r"\t\n\f\r "
r"""What `\s` means to RE2; Python counts the vertical tab, too."""

_OUTSIDE = {
    "d": r"\d",
    "D": r"\D",
    "w": r"\w",
    "W": r"\W",
    "b": r"\b",
    "B": r"\B",
    "A": r"\A",
    "z": r"\Z",
    "s": f"[{_SPACES}]",
    "S": f"[^{_SPACES}]",
}
"""Escapes of letters outside of classes, and how `re` writes them."""

_INSIDE = {"d": r"\d", "D": r"\D", "w": r"\w", "W": r"\W", "s": _SPACES}
_CONTROLS = "afnrtv"
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_GROUP = re.compile(r"\(\?(:|P<[A-Za-z_]\w*>)")
_REPEAT = re.compile(r"(\*|\+|\?|\{\d{1,3}(,\d{0,3})?\})\??")


@dataclass(frozen=True)
class Pattern:
    """A pattern that may be run.

    Attributes:
        found: what runs it.
        longest_matched: characters of a string that may be compared with it as a whole.
        longest_searched: characters of a string in which it may be searched.
    """

    found: "re.Pattern[str]"
    longest_matched: int
    longest_searched: int

    def matches(self, text: bytes) -> bool:
        """Tell whether it takes the whole string. Raises: InvalidRequest, as `decoded`."""
        return bool(self.found.fullmatch(_short(text, self.longest_matched)))

    def replaced(
        self, text: bytes, replace: Callable[["re.Match[str]"], str], every: bool
    ) -> bytes:
        """Replace the first match, or every one. Raises: InvalidRequest, as `decoded`."""
        return _replaced(self.found, replace, _short(text, self.longest_searched), every).encode()


def _short(text: bytes, longest: int) -> str:
    characters = decoded(text)
    if len(characters) > longest:
        raise InvalidTensor(
            f"a string has {len(characters)} characters; this pattern, of several repetitions,"
            f" takes at most {longest}: send shorter strings"
        )
    return characters


@lru_cache(maxsize=64)
def compiled(pattern: bytes) -> Pattern:
    """Compile a pattern of RE2.

    Raises:
        Refused: naming what is not taken.
    """
    try:
        pieces = list(_pieces(pattern.decode()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about brackets in classes, which are escaped below
            found = re.compile("".join(piece.text for piece in pieces), re.ASCII)
            cost = cost_of(pieces)
    except (UnicodeDecodeError, re.error, IndexError, OverflowError, RecursionError) as error:
        raise Refused(str(error)) from error
    return Pattern(found, cost.longest_matched(), cost.longest_searched())


def _pieces(text: str) -> Iterator[Piece]:
    at = 0
    repeated = True  # nothing stands before that could be repeated, or it is repeated already
    while at < len(text):
        piece, at = _piece(text, at, repeated)
        yield piece
        repeated = piece.kind in _NOT_REPEATED


_NOT_REPEATED = frozenset({Kind.OPEN, Kind.OR, Kind.PLACE, Kind.REPEAT})


def _piece(text: str, at: int, repeated: bool) -> tuple[Piece, int]:
    """Read one piece; gives it, and where it ends."""
    char = text[at]
    if char == "\\":
        kind = Kind.PLACE if text[at + 1] in "bBAz" else Kind.CHARACTER
        return Piece(kind, _escape(text[at + 1], _OUTSIDE)), at + 2
    if char == "[":
        taken, end = _class(text, at)
        return Piece(Kind.CHARACTER, taken), end
    if char == "(":
        opened = _GROUP.match(text, at)
        if text.startswith("(?", at) and not opened:
            raise Refused(f"the group {text[at : at + 4]!r}")
        return Piece(Kind.OPEN, opened[0] if opened else "("), opened.end() if opened else at + 1
    if char in "*+?" or (char == "{" and _REPEAT.match(text, at)):
        found = _REPEAT.match(text, at)
        if repeated or found is None:
            raise Refused("a repetition of nothing, or of a repetition")
        return Piece(Kind.REPEAT, found[0], *_times(found[1])), found.end()
    return Piece(_PLAIN.get(char, Kind.CHARACTER), _WRITTEN.get(char, char)), at + 1


_PLAIN = {")": Kind.CLOSE, "|": Kind.OR, "^": Kind.PLACE, "$": Kind.PLACE}
_WRITTEN = {"$": r"\Z", "{": r"\{", "}": r"\}"}


def _times(repeat: str) -> tuple[int, int | None]:
    """Read how often something is repeated, at least and at most."""
    if repeat in _TIMES:
        return _TIMES[repeat]
    least, comma, most = repeat[1:-1].partition(",")
    return int(least), (int(most) if most else None) if comma else int(least)


_TIMES: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _escape(char: str, known: dict[str, str]) -> str:
    if char in known:
        return known[char]
    if char in _CONTROLS or (char.isascii() and not char.isalnum()):
        return f"\\{char}"
    raise Refused(f"the escape \\{char}")


def _class(text: str, at: int) -> tuple[str, int]:
    """Read a class of characters; gives it as `re` writes it, and where it ends."""
    parts = ["["]
    at += 1
    if text[at] == "^":
        parts.append("^")
        at += 1
    first = True
    while text[at] != "]" or first:
        if text.startswith("[:", at):
            end = text.index(":]", at) if ":]" in text[at:] else len(text)
            name = text[at + 2 : end]
            if name not in _POSIX:
                raise Refused(f"the class [:{name}:]")
            parts.append(_POSIX[name])
            at = end + 2
        elif text[at] == "\\":
            parts.append(_escape(text[at + 1], _INSIDE))
            at += 2
        else:
            # A hyphen makes a range, or stands for itself at either end; the rest is plain.
            parts.append("\\" + text[at] if text[at] in "[]^&~|" else text[at])
            at += 1
        first = False
    return "".join(parts) + "]", at + 1


def rewriter(rewrite: bytes, groups: int) -> Callable[["re.Match[str]"], str]:
    r"""Give what makes the replacement of a match: `\0` to `\9` are groups, `\\` is a backslash.

    Raises:
        Refused: another escape, or a group that the pattern lacks; RE2 replaces nothing then.
    """
    try:
        text = rewrite.decode()
    except UnicodeDecodeError as error:
        raise Refused(str(error)) from error
    parts = re.split(r"\\(.?)", text, flags=re.DOTALL)
    for escaped in parts[1::2]:
        if escaped != "\\" and not (escaped.isdigit() and int(escaped) <= groups):
            raise Refused(f"the rewrite {text!r}")

    def replace(match: "re.Match[str]") -> str:
        made = list(parts)
        made[1::2] = [each if each == "\\" else match[int(each)] or "" for each in parts[1::2]]
        return "".join(made)

    return replace


def _replaced(
    pattern: "re.Pattern[str]", replace: Callable[["re.Match[str]"], str], text: str, every: bool
) -> str:
    """Replace the first match, or every one, as RE2 does.

    An empty match where the one before ended does not count; to Python it does.
    """
    made, at, ended = [], 0, -1
    while at <= len(text):
        match = pattern.search(text, at)
        if match is None:
            break
        made.append(text[at : match.start()])
        if match.start() == match.end() == ended:
            made.append(text[at : at + 1])
            at += 1
            continue
        made.append(replace(match))
        at = ended = match.end()
        if not every:
            break
    return "".join(made) + text[at:]


def decoded(text: bytes) -> str:
    """Give the characters of a string. Raises: InvalidRequest, for what is not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"a string is not valid UTF-8: {text[:100]!r}") from error
