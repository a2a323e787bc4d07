"""Reads TensorFlow Serving's dialect of JSON, for documents that a strict parser refuses.

TensorFlow Serving parses with RapidJSON 1.1.0 and the flags Iterative, NanAndInf and StopWhenDone.
Beyond the standard it takes `NaN`, `Inf` and `Infinity` with a sign or without, any bytes after the
first complete value, a UTF-8 byte order mark, and bytes in strings that are not UTF-8. A NUL byte
outside of a string ends the document.

A number without fraction and exponent that fits int64 or uint64 is an `int`, every other one a
`float`. Of equal keys in an object the first one counts, as RapidJSON's look-up has it. Strings
become `str` in which a byte that is not UTF-8 is a lone surrogate (PEP 383): `bytes_of` restores
the bytes.

The parser keeps its own stack, so deep nesting costs eight bytes a level. Regular expressions
find the ends of tokens, and runs of numbers and texts with escapes are handed in one piece to
orjson, or to the standard library, which knows NaN: only runs that these refuse are read token by
token.

The package python-rapidjson (1.25, over RapidJSON 1.1.0) has the same texts and offsets, but cannot
stand here: it refuses bytes that are not UTF-8, takes the last of equal keys, raises RecursionError
from 1,000 levels on, and has no flag StopWhenDone.

Source: reader.h of RapidJSON 1.1.0; error texts in error/en.h.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

import orjson

from ie_serving.core.values.errors import InvalidRequest

JsonValue = Any
"""None, bool, int, float, str, a list of Json, or a dict of str to Json."""

KEPT_LEVELS = 64
"""Containers nested deeper than this are checked, but come back empty: no tensor is so deep."""

MISSING_NAME = "Missing a name for object member."
MISSING_COLON = "Missing a colon after a name of object member."
MISSING_COMMA_OR_BRACE = "Missing a comma or '}' after an object member."
MISSING_COMMA_OR_BRACKET = "Missing a comma or ']' after an array element."
MISSING_QUOTE = "Missing a closing quotation mark in string."
MISSING_FRACTION = "Miss fraction part in number."
MISSING_EXPONENT = "Miss exponent in number."
INVALID_VALUE = "Invalid value."
INVALID_ESCAPE = "Invalid escape character in string."
INVALID_HEX = "Incorrect hex digit after \\u escape in string."
INVALID_SURROGATE = "The surrogate pair in string is invalid."
EMPTY = "The document is empty."
TOO_BIG = "Number too big to be stored in double."

_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\n\r]*")
_PLAIN_TEXT = re.compile(rb'[^"\\\x00-\x1f]*')
_CLOSING_QUOTE = re.compile(rb'(?<!\\)(?:\\\\)*"')
_BRACKETS = re.compile(rb"\[*")
_PLAIN_ESCAPES = re.compile(rb'(?:\\["\\/bfnrt]){2,1024}')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_HEX4 = re.compile(rb"[0-9A-Fa-f]{4}")
_RUN = re.compile(rb"[-+.0-9eE, \t\n\rNaInfity]*")
_LONG_NUMBER = re.compile(rb"[0-9]{19}|[eE][-+]?[0-9]{3}")
_RUN_BYTES: Final = 1 << 16
"""Longest run of numbers that is handed to orjson, and gone over again when it is refused."""

_ESCAPED: Final = {
    0x22: b'"',
    0x2F: b"/",
    0x5C: b"\\",
    0x62: b"\b",
    0x66: b"\f",
    0x6E: b"\n",
    0x72: b"\r",
    0x74: b"\t",
}
_LITERALS: Final = {0x6E: (b"null", None), 0x74: (b"true", True), 0x66: (b"false", False)}
_NOT_A_VALUE: Final = frozenset(b"]},:")
_INT_DIGITS: Final = 20
"""A longer integer, its sign included, fits neither int64 nor uint64."""


def parse_document(body: bytes) -> JsonValue:
    """Parse the first JSON value in `body`.

    Raises:
        InvalidRequest: with RapidJSON's text and the offset of the fault in bytes.
    """
    if not body:
        raise InvalidRequest("JSON Parse error: The document is empty")
    return _DocumentReader(body).document()


def parse_file(content: bytes) -> JsonValue:
    """Parse a file that is one JSON value and nothing else, without equal keys in one object.

    A client's body is read as TensorFlow Serving reads it; in a file, text that TensorFlow Serving
    would skip is a mistake.

    Raises:
        InvalidRequest: as `parse_document`; or a key is repeated, or text follows the value.
    """
    if not content:
        raise InvalidRequest("JSON Parse error: The document is empty")
    return _FileReader(content).document()


def bytes_of(text: str) -> bytes:
    """Return the bytes that stood in the document for this string, escapes resolved."""
    return text.encode("utf-8", "surrogateescape")


# A megabyte of brackets would otherwise make a million lists: hundreds of megabytes for a body that
# no reader takes.
class _DroppedList(list[JsonValue]):
    """Stands for every list too deep to be kept."""

    def append(self, value: JsonValue) -> None:
        """Forget `value`."""

    def extend(self, values: Iterable[JsonValue]) -> None:
        """Forget `values`."""


class _DroppedDict(dict[str, JsonValue]):
    """Stands for every object too deep to be kept."""

    def setdefault(self, key: str, default: JsonValue = None) -> JsonValue:
        """Forget `default`."""


_DROPPED: Final[dict[type, JsonValue]] = {list: _DroppedList(), dict: _DroppedDict()}


class _DocumentReader:
    """Reads one document; `_stack` holds the containers that are open, innermost last."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._stack: list[JsonValue] = []
        self._name = ""
        self._root: JsonValue = None
        self._one_by_one_until = 0
        self._end = 0

    def document(self) -> JsonValue:
        """Read up to the end of the first complete value."""
        at = self._after_space(len(_BOM) if self._body.startswith(_BOM) else 0)
        if self._at(at) in _NOT_A_VALUE or self._at(at) == 0:
            _fail(EMPTY, at)
        while at >= 0:
            at = self._value(at)
        return self._root

    def _value(self, at: int) -> int:
        """Read the value, or only the opening bracket, at `at`.

        Returns:
            Where the next value starts, or -1 when the document is complete.
        """
        first = self._at(at)
        if first == 0x5B:
            at = self._skip_brackets(at) if len(self._stack) > KEPT_LEVELS else at
            return self._open([], at + 1)
        if first == 0x7B:
            return self._open({}, at + 1)
        if self._stack and isinstance(self._stack[-1], list) and at >= self._one_by_one_until:
            at = self._run(self._stack[-1], at)
            first = self._at(at)
            if first == 0x5B or first == 0x7B:
                return at
        value, at = self._scalar(first, at)
        self._attach(value)
        return self._next(at)

    def _open(self, container: JsonValue, at: int) -> int:
        self._attach(container)
        kept = len(self._stack) < KEPT_LEVELS
        self._stack.append(container if kept else _DROPPED[type(container)])
        at = self._after_space(at)
        if isinstance(container, list):
            return self._next(at) if self._at(at) == 0x5D else at
        return self._next(at) if self._at(at) == 0x7D else self._member(at)

    # One search, for the same reason: steps of the loop would take seconds.
    def _skip_brackets(self, at: int) -> int:
        """Open all but the last of the lists that begin at `at`; return where the last begins."""
        last = _BRACKETS.match(self._body, at).end() - 1  # type: ignore[union-attr]
        self._stack.extend([_DROPPED[list]] * (last - at))
        return last

    def _attach(self, value: JsonValue) -> None:
        if not self._stack:
            self._root = value
        elif isinstance(self._stack[-1], list):
            self._stack[-1].append(value)
        else:
            self._stack[-1].setdefault(self._name, value)

    def _next(self, at: int) -> int:
        """Go on after a value, closing containers; return as `_value` does."""
        while self._stack:
            at = self._after_space(at)
            byte = self._at(at)
            in_list = isinstance(self._stack[-1], list)
            if byte == 0x2C:
                at = self._after_space(at + 1)
                return at if in_list else self._member(at)
            if byte != (0x5D if in_list else 0x7D):
                _fail(MISSING_COMMA_OR_BRACKET if in_list else MISSING_COMMA_OR_BRACE, at)
            self._stack.pop()
            at += 1
        self._end = at
        return -1

    def _member(self, at: int) -> int:
        """Read a name and its colon; return where the value starts."""
        if self._at(at) != 0x22:
            _fail(MISSING_NAME, at)
        self._name, at = self._text(at)
        at = self._after_space(at)
        if self._at(at) != 0x3A:
            _fail(MISSING_COLON, at)
        return self._after_space(at + 1)

    # Up to the last comma: behind it a number may go on beyond the run. A run that is refused is
    # not tried again at each of its elements, which would be quadratic.
    def _run(self, into: list[JsonValue], at: int) -> int:
        """Take elements of an array up to a comma, as many as orjson reads in one piece."""
        end = _RUN.match(self._body, at, at + _RUN_BYTES).end()  # type: ignore[union-attr]
        comma = self._body.rfind(b",", at, end)
        if comma <= at:
            return at
        numbers = _numbers(b"[%b]" % self._body[at:comma])
        if numbers is None:
            self._one_by_one_until = end
            return at
        into.extend(numbers)
        return self._after_space(comma + 1)

    def _scalar(self, first: int, at: int) -> tuple[JsonValue, int]:
        if first == 0x22:
            return self._text(at)
        if first in _LITERALS:
            word, value = _LITERALS[first]
            return value, self._word(word, at)
        match = _NUMBER.match(self._body, at)
        if match is None:
            return self._not_finite(at)
        end = match.end()
        self._check_number_end(match[1], end)
        return _number(match, at), end

    # The pattern ends before a fraction or exponent without digits: the next character shows it.
    def _check_number_end(self, tail: bytes, end: int) -> None:
        """Find a fraction or an exponent that is begun and has no digits."""
        byte = self._at(end)
        exponent = b"e" in tail or b"E" in tail
        if byte == 0x2E and not tail:
            _fail(MISSING_FRACTION, end + 1)
        if byte in b"eE" and not exponent:
            sign = self._at(end + 1) in b"+-"
            _fail(MISSING_EXPONENT, end + 1 + sign)

    def _not_finite(self, at: int) -> tuple[float, int]:
        minus = self._at(at) == 0x2D
        at += minus
        if self._at(at) == 0x4E:
            return float("nan"), self._word(b"NaN", at)
        if self._at(at) != 0x49:
            _fail(INVALID_VALUE, at)
        end = self._word(b"Inf", at)
        if self._at(end) == 0x69:
            end = self._word(b"inity", end)
        return float("-inf" if minus else "inf"), end

    def _word(self, word: bytes, at: int) -> int:
        """Return the end of `word`, which must stand at `at`."""
        for offset, byte in enumerate(word):
            if self._at(at + offset) != byte:
                _fail(INVALID_VALUE, at + offset)
        return at + len(word)

    def _text(self, at: int) -> tuple[str, int]:
        """Read the string whose opening quotation mark is at `at`."""
        start = at + 1
        end = self._plain_end(start)
        if self._at(end) == 0x22:
            return self._body[start:end].decode("utf-8", "surrogateescape"), end + 1
        closing = _CLOSING_QUOTE.search(self._body, start)
        if closing is not None:
            try:
                return orjson.loads(self._body[at : closing.end()]), closing.end()
            except orjson.JSONDecodeError:
                pass
        return self._odd_text(start)

    def _odd_text(self, at: int) -> tuple[str, int]:
        """Read a string escape by escape, to its end or to its first fault."""
        pieces = []
        while True:
            end = self._plain_end(at)
            pieces.append(self._body[at:end])
            byte = self._at(end)
            if byte == 0x22:
                return b"".join(pieces).decode("utf-8", "surrogateescape"), end + 1
            if byte != 0x5C:
                _fail(INVALID_ESCAPE if byte else MISSING_QUOTE, end)
            run = _PLAIN_ESCAPES.match(self._body, end)
            if run is not None:
                piece, at = orjson.loads(b'"%b"' % run[0]).encode(), run.end()
            else:
                piece, at = self._escape(end)
            pieces.append(piece)

    def _escape(self, at: int) -> tuple[bytes, int]:
        """Resolve the escape whose backslash is at `at`, a surrogate pair as one."""
        kind = self._at(at + 1)
        if kind in _ESCAPED:
            return _ESCAPED[kind], at + 2
        if kind != 0x75:
            _fail(INVALID_ESCAPE, at)
        code = self._hex4(at + 2, at)
        end = at + 6
        if 0xD800 <= code < 0xE000:  # half of a pair; a low half that comes first is refused too
            low = 0
            if code < 0xDC00 and self._body[end : end + 2] == b"\\u":
                low = self._hex4(end + 2, at)
            if not 0xDC00 <= low < 0xE000:
                _fail(INVALID_SURROGATE, at)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            end += 6
        return chr(code).encode(), end

    def _hex4(self, at: int, escape: int) -> int:
        match = _HEX4.match(self._body, at)
        if match is None:
            _fail(INVALID_HEX, escape)
        return int(match[0], 16)

    def _plain_end(self, at: int) -> int:
        return _PLAIN_TEXT.match(self._body, at).end()  # type: ignore[union-attr]

    # The comparison first: JSON of programs has no white space, and spares the regular expression.
    def _after_space(self, at: int) -> int:
        if self._at(at) > 0x20:
            return at
        return _SPACE.match(self._body, at).end()  # type: ignore[union-attr]

    def _at(self, at: int) -> int:
        """Return the byte at `at`; 0 at the end, which RapidJSON does not tell from a NUL."""
        return self._body[at] if at < len(self._body) else 0


class _FileReader(_DocumentReader):
    """Reads a document; refuses text after it, and equal keys in an object."""

    def document(self) -> JsonValue:
        """Read all."""
        found = super().document()
        rest = self._after_space(self._end)
        if rest < len(self._body):
            _fail("The file must be one JSON value, and something follows it.", rest)
        return found

    def _attach(self, value: JsonValue) -> None:
        if self._stack and isinstance(self._stack[-1], dict) and self._name in self._stack[-1]:
            raise InvalidRequest(f'an object has "{self._name}" twice: leave one of them out')
        super()._attach(value)


def _numbers(array: bytes) -> list[JsonValue] | None:
    """Read an array in which each element is a number; None when one of them needs a closer look.

    The standard library knows NaN and Infinity, but also reads numbers too big as infinity.
    """
    try:
        if b"N" not in array and b"I" not in array:
            return list[JsonValue](orjson.loads(array))
        return None if _LONG_NUMBER.search(array) else list[JsonValue](json.loads(array))
    except ValueError:
        return None


# Beyond 64 bits an integer becomes a float, as in RapidJSON; it is rounded, and not refused.
def _number(match: "re.Match[bytes]", at: int) -> int | float:
    token = match[0]
    if not match[1] and len(token) <= _INT_DIGITS:
        value = int(token)
        if -(1 << 63) <= value < 1 << 64:
            return value
    number = float(token)
    if number in (float("inf"), float("-inf")):
        _fail(TOO_BIG, at)
    return number


def _fail(text: str, at: int) -> NoReturn:
    raise InvalidRequest(f"JSON Parse error: {text} at offset: {at}")
