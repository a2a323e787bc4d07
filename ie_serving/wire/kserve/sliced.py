"""Reads large bodies of one input of numbers in slices, to hold the interpreter shortly.

`wire/json/slices.py` says why and how. Here the list is the `data` of the only input. It is cut out
of the body: the rest is small, and is read like any other body, with an empty list in its place.
Both together are exactly the body, since a list of slices that are each JSON is JSON, and so is the
rest with that list in it. Unusual bodies are left to the reader of whole bodies.
"""

from typing import Final

import simdjson

from ie_serving.wire.json.buffers import Lazy, parse_strictly
from ie_serving.wire.json.slices import Cuts, pattern
from ie_serving.wire.json.tensor import MAX_RANK

_DATA: Final = pattern(rb'"data" : \[(?=(?P<depth> (?:\[ ){0,%d}))' % MAX_RANK)
_LATEST: Final = 4096
"""Bytes of a body among which its data begins; and from its end among which it ends."""
_MOST_ENDS: Final = 16
"""Brackets from the end that are tried: behind the data are those of other lists."""


def sliced(text: bytes) -> tuple[Lazy, bytes, Cuts] | None:
    """Find out whether a body can be read in slices.

    Returns:
        The rest of the body, parsed and as text, and the data; None where it cannot.
    """
    start = _DATA.search(text, 0, _LATEST)
    if start is None:
        return None
    first, end = start.end(), len(text)
    for _ in range(_MOST_ENDS):
        end = text.rfind(b"]", max(first, len(text) - _LATEST), end)
        if end < 0:
            return None
        rest = text[:first] + text[end:]
        document = parse_strictly(rest)
        if document is not None and _has_room(document):
            # Numbers have no quotation marks. The search for one byte is some twenty times as fast
            # as for a word, and it holds the interpreter lock.
            if text.find(b'"', first, end) >= 0:
                return None
            return document, rest, Cuts(text, first, end, start["depth"])
    return None


def _has_room(document: Lazy) -> bool:
    """Tell whether the only input has an empty list as its data."""
    if type(document) is not simdjson.Object or "inputs" not in list(document):
        return False
    inputs = document["inputs"]
    if type(inputs) is not simdjson.Array or len(inputs) != 1:
        return False
    only: Lazy = inputs[0]
    if type(only) is not simdjson.Object or list(only).count("data") != 1:
        return False
    return type(only["data"]) is simdjson.Array and not len(only["data"])
