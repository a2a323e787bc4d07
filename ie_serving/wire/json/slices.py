"""Reader 1 of 4: reads large bodies of plain numbers in slices, to hold the interpreter shortly.

simdjson holds the interpreter lock for a whole call: 60 ms for 20 MB. The list of rows is therefore
cut after some of its commas and every slice is parsed as a separate list. That is exact: where
`[a]` and `[b]` are both JSON, `[a,b]` is the list of the elements of both; a cut in the wrong place
leaves a slice that is invalid JSON. It is also faster: a slice stays in the processor's cache.

Only bodies of one plain list are read so: `{"instances": [...]}`, `{"inputs": [...]}` and
`{"inputs": {"x": [...]}}`, with a `signature_name` before or after it. Unusual bodies are left to
the reader of whole documents, and so is every error.
"""

import re
from typing import Final

import numpy as np
import simdjson

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.json.buffers import parse_strictly, read_array
from ie_serving.wire.json.tensor import MAX_RANK

SLICE: Final = 256 * 1024
"""Bytes that simdjson parses in one call, which holds the interpreter lock for less than 1 ms."""
LONGEST_ROW: Final = 4 << 20
"""Bytes from the wanted length of a slice within which the end of a row is looked for. A body with
a longer row is read whole, by reader 2."""
LONGEST_SPACED: Final = 256 * 1024
"""The same where white space stands between the brackets: looking takes a regular expression there,
which beyond this costs more than parsing the whole."""


def pattern(text: bytes) -> "re.Pattern[bytes]":
    """Compile `text`, in which a space stands for any white space of JSON."""
    return re.compile(text.replace(b" ", rb"[ \t\r\n]*"), re.ASCII)


_START: Final = pattern(
    rb' \{ (?:"signature_name" : "(?P<signature>\w*)" , )?"(?P<key>instances|inputs)" : '
    rb'(?:\{ "(?P<name>[-\w.:/]+)" : )?\[(?=(?P<depth> (?:\[ ){0,%d}))' % MAX_RANK
)
_END: Final = pattern(rb'\] (?P<named>\} )?(?:, "signature_name" : "(?P<signature>\w*)" )?\} \Z')
_LONGEST_END: Final = 512
"""Bytes at the end of a body that are looked at: brackets and a `signature_name`. A longer end is
read whole."""


class Slices:
    """A body whose beginning and end allow reading in slices.

    Attributes:
        key: `instances` or `inputs`.
        name: the input that the list is for; None when it is for the only one.
        signature_name: the requested signature; empty for `serving_default`.
    """

    __slots__ = ("_cuts", "key", "name", "signature_name")

    def __init__(self, body: bytes, start: "re.Match[bytes]", end: "re.Match[bytes]") -> None:
        self.key = start["key"].decode()
        self.name = None if start["name"] is None else start["name"].decode()
        self.signature_name = (start["signature"] or end["signature"] or b"").decode()
        self._cuts = SlicedList(body, start.end(), end.start(), start["depth"])

    def read(self, dtype: DataType) -> Array | None:
        """Read all as one tensor of `dtype`; None when it has to be read as a whole document."""
        return self._cuts.read(dtype)


class SlicedList:
    """A list within a body, cut into slices.

    Args of the constructor:
        body: the text.
        start: index at which the list begins, behind its opening bracket.
        end: index at which it ends, before its closing bracket.
        opening: brackets, and white space, that its first element begins with.
    """

    __slots__ = ("_body", "_close", "_end", "_spaced", "_start")

    def __init__(self, body: bytes, start: int, end: int, opening: bytes) -> None:
        self._body = body
        self._start = start
        self._end = end
        depth = opening.count(b"[")
        self._close = b"]" * depth + b","
        spaced = len(opening) > depth  # a writer of [ [ writes ] ] as well
        self._spaced = pattern(rb"(?:\] ){%d}," % depth) if spaced else None

    def read(self, dtype: DataType) -> Array | None:
        """Read all as one tensor of `dtype`; None when it has to be read as a whole document."""
        parts: list[Array] = []
        at = self._start
        while at <= self._end:
            cut = self._next_cut(at)
            if cut is None:
                return None
            part = _read(b"[%b]" % self._body[at:cut], dtype)
            if part is None or (parts and part.shape[1:] != parts[0].shape[1:]):
                return None
            parts.append(part)
            at = cut + 1
        return np.concatenate(parts) if parts else None

    def _next_cut(self, at: int) -> int | None:
        """Find the comma behind a row that the slice from `at` shall end with."""
        wanted = at + SLICE
        if wanted >= self._end:
            return self._end
        comma = self._find_close(wanted)
        if comma is not None:
            return comma
        return self._end if self._end - wanted <= LONGEST_ROW else None

    # The comma has to be behind all the closing brackets of a row: any other is inside of a row,
    # and a slice that ends there would be refused, and the whole body read again.
    def _find_close(self, wanted: int) -> int | None:
        """Find the first comma from `wanted` on that closing brackets of a row stand before."""
        if self._spaced is None:
            found = self._body.find(self._close, wanted, min(self._end, wanted + LONGEST_ROW))
            return None if found < 0 else found + len(self._close) - 1
        spaced = self._spaced.search(self._body, wanted, min(self._end, wanted + LONGEST_SPACED))
        return spaced.end() - 1 if spaced else None


# `{"instances": {...}}` is no form of TensorFlow Serving's; its error is for the other readers.
def sliced(body: bytes) -> Slices | None:
    """Look whether `body` may be read slice by slice."""
    start = _START.match(body)
    end = _END.search(body, max(0, len(body) - _LONGEST_END))
    if not start or not end or end.start() < start.end():
        return None
    if start["signature"] is not None and end["signature"] is not None:
        return None
    named = start["name"] is not None
    if named != (end["named"] is not None) or (named and start["key"] != b"inputs"):
        return None
    return Slices(body, start, end)


def _read(part: bytes, dtype: DataType) -> Array | None:
    """Read one slice. An empty one is none: a comma is too many, or the list has no element."""
    document = parse_strictly(part)
    if type(document) is not simdjson.Array or not len(document):
        return None
    return read_array(document, dtype, part)
