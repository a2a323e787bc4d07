"""Large bodies of plain numbers, read slice by slice, so that nothing holds the interpreter long.

simdjson holds it for as long as a call lasts: 60 ms for 20 MB. The list of rows is therefore cut
behind some of its commas and every slice is parsed as a list of its own. That is exact: where
`[a]` and `[b]` are both JSON, `[a,b]` is the list of the elements of both; a cut in the wrong
place leaves a slice that is no JSON. It is sooner done, too: a slice stays in the processor's
cache.

Only bodies of one plain list are read so: `{"instances": [...]}`, `{"inputs": [...]}` and
`{"inputs": {"x": [...]}}`, with a `signature_name` before or after it. Whatever is unusual in one
is left to the reader of whole documents, and so is every error.
"""

import re
from typing import Final

import numpy as np
import simdjson

from ie_serving.server.wire.json_numbers import parse_strictly, read_array
from ie_serving.server.wire.json_tensor import MAX_RANK
from ie_serving.tensors import Array, DataType

SLICE: Final = 256 * 1024
"""Bytes that are parsed at a time, in less than a millisecond."""
LONGEST_ROW: Final = 4 << 20
"""A row that is longer is not looked for the end of."""
LONGEST_SPACED: Final = 256 * 1024
"""Nor, beyond this, one with white space between its brackets: to look costs more than to parse."""


def _pattern(text: bytes) -> "re.Pattern[bytes]":
    """Compile `text`, in which a space stands for any white space of JSON."""
    return re.compile(text.replace(b" ", rb"[ \t\r\n]*"), re.ASCII)


_START: Final = _pattern(
    rb' \{ (?:"signature_name" : "(?P<signature>\w*)" , )?"(?P<key>instances|inputs)" : '
    rb'(?:\{ "(?P<name>[-\w.:/]+)" : )?\[(?=(?P<depth> (?:\[ ){0,%d}))' % MAX_RANK
)
_END: Final = _pattern(rb'\] (?P<named>\} )?(?:, "signature_name" : "(?P<signature>\w*)" )?\} \Z')
_LONGEST_END: Final = 512


class Slices:
    """A body that begins and ends as one that can be read so.

    Attributes:
        key: `instances` or `inputs`.
        name: the input that the list is given for; None when it is given for the only one.
        signature_name: the signature that is asked for; empty for `serving_default`.
    """

    __slots__ = ("_body", "_close", "_end", "_spaced", "_start", "key", "name", "signature_name")

    def __init__(self, body: bytes, start: "re.Match[bytes]", end: "re.Match[bytes]") -> None:
        self.key = start["key"].decode()
        self.name = None if start["name"] is None else start["name"].decode()
        self.signature_name = (start["signature"] or end["signature"] or b"").decode()
        self._body = body
        self._start = start.end()
        self._end = end.start()
        depth = start["depth"].count(b"[")
        self._close = b"]" * depth + b","
        spaced = len(start["depth"]) > depth  # who writes [ [ writes ] ] as well
        self._spaced = _pattern(rb"(?:\] ){%d}," % depth) if spaced else None

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

    def _find_close(self, wanted: int) -> int | None:
        """Find the first comma from `wanted` on that closing brackets of a row stand before."""
        if self._spaced is None:
            found = self._body.find(self._close, wanted, min(self._end, wanted + LONGEST_ROW))
            return None if found < 0 else found + len(self._close) - 1
        spaced = self._spaced.search(self._body, wanted, min(self._end, wanted + LONGEST_SPACED))
        return spaced.end() - 1 if spaced else None


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
