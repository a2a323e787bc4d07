r"""Regular expressions of RE2, by RE2: TensorFlow matches bytes of UTF-8 with the same library.

Its time grows with the string alone, whatever the pattern is. The Python binding lacks
`RE2::GlobalReplace`, which counts empty matches otherwise than Python's `sub`; that is here.

Source: RE2::GlobalReplace and RE2::Rewrite in re2.cc.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import re2

from ie_serving.core.values.errors import InvalidRequest

MOST_BYTES_OF_CHARACTER = 4
"""Bytes of one character in UTF-8."""

_ONE_CLASS = re.compile(rb"\[(?:[^][\\]|\\.)+\]", re.DOTALL)
"""A pattern that is one class of characters, as `[!,.]` or `[^a-z]`."""

Groups = Callable[[int], bytes | None]
"""Gives a group of a match; None for one that matched nothing."""
Rewrite = Callable[[Groups], bytes]


class PatternRefused(Exception):
    """A pattern that RE2 does not take, or a rewrite that it would replace nothing by."""


@dataclass(frozen=True)
class Pattern:
    """A pattern that RE2 has compiled.

    Attributes:
        found: the compiled RE2 pattern.
    """

    found: "re2._Regexp"

    @property
    def groups(self) -> int:
        """How many groups it has."""
        return int(self.found.groups)

    def matches(self, text: bytes) -> bool:
        """Tell whether it takes the whole string."""
        return self.found.fullmatch(text) is not None

    def replaced(self, text: bytes, rewrite: Rewrite, every: bool) -> bytes:
        """Replace the first match, or every one.

        An empty match where the one before ended does not count; a character is passed over.
        """
        made, at, ended = list[bytes](), 0, -1
        while at <= len(text) and (match := self.found.search(text, at)):
            start, end = match.span()
            made.append(text[at:start])
            if start == end == ended:
                at = start + _length_of_character(text, start)
                made.append(text[start:at])
                continue
            made.append(rewrite(match.group))
            at = ended = end
            if not every:
                break
        return b"".join([*made, text[at:]])


def _length_of_character(text: bytes, at: int) -> int:
    """Give the bytes of the character that begins there; 1 where none does."""
    for length in range(1, MOST_BYTES_OF_CHARACTER + 1):
        try:
            text[at : at + length].decode()
        except UnicodeDecodeError:
            continue
        return length
    return 1


@lru_cache(maxsize=64)
def compiled(pattern: bytes) -> Pattern:
    """Compile a pattern.

    Raises:
        PatternRefused: in RE2's words.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return Pattern(re2.compile(pattern, options))
    except re2.error as error:
        words = error.args[0]
        raise PatternRefused(
            words.decode(errors="replace") if isinstance(words, bytes) else words
        ) from error


@lru_cache(maxsize=64)
def replacer(pattern: bytes, rewrite: bytes, every: bool) -> Callable[[bytes], bytes]:
    """Give the function that replaces a pattern's first match in a string, or every one.

    Raises:
        PatternRefused: see `compiled` and `rewriter`.
    """
    found = compiled(pattern)
    general = partial(found.replaced, rewrite=rewriter(rewrite, found.groups), every=every)
    if not every or len(rewrite) > 1 or not _ONE_CLASS.fullmatch(pattern):
        return general
    # Each match is one character, in ASCII a byte: RE2 tells for each of them whether it is.
    members = bytes(byte for byte in range(128) if found.matches(bytes([byte])))
    table = bytes.maketrans(members, rewrite * len(members)) if rewrite else None
    gone = b"" if rewrite else members
    return lambda text: text.translate(table, gone) if text.isascii() else general(text)


def rewriter(rewrite: bytes, groups: int) -> Rewrite:
    r"""Give the function that replaces a match: `\0` to `\9` are groups, `\\` is a backslash.

    Raises:
        PatternRefused: another escape, or a group that the pattern lacks; RE2 then
            replaces nothing.
    """
    parts = re.split(rb"\\(.?)", rewrite, flags=re.DOTALL)
    for escaped in parts[1::2]:
        if escaped != b"\\" and not (escaped.isdigit() and int(escaped) <= groups):
            raise PatternRefused(f"the rewrite {rewrite.decode(errors='replace')!r}")

    def replace(group: Groups) -> bytes:
        made = list(parts)
        made[1::2] = [b"\\" if each == b"\\" else group(int(each)) or b"" for each in parts[1::2]]
        return b"".join(made)

    return replace


def decoded(text: bytes) -> str:
    """Decode UTF-8. Raises: InvalidRequest."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"a string is not valid UTF-8: {text[:100]!r}") from error
