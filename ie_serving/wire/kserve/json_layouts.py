"""Remembers small requests in JSON by all their text but the values of their only input.

A client's requests mostly differ in these numbers alone. The text around them is compared with
that of earlier requests, and only the numbers are parsed.
"""

from typing import Final, NamedTuple

from ie_serving.wire.json.buffers import Lazy, parse_strictly

DATA: Final = b'"data"'
LONGEST: Final = 1024
"""Bytes around the values up to which a request is remembered: names, shape, parameters."""
MOST: Final = 64
"""Remembered requests, 2 KB each; a further one empties the memory, as clients choose them. None
has an id: most clients that send one send another with each request."""


class Cut(NamedTuple):
    """A text, cut at the values.

    Attributes:
        around: what stands before the values, and what stands behind them.
        values: the list.
    """

    around: tuple[bytes, bytes]
    values: bytes


def cut(text: bytes) -> Cut | None:
    """Cut a text at the first list of its first member `data`; None if there is none, or no use."""
    name = text.find(DATA, 0, LONGEST)
    start = text.find(b"[", name, LONGEST)
    end = text.find(b"]", start) + 1
    if name < 0 or start < 0 or end == 0 or start + len(text) - end > LONGEST:
        return None
    return Cut((text[:start], text[end:]), text[start:end])


def is_plain(found: Cut) -> bool:
    """Tell whether the text around the values of a valid request may be remembered.

    The list has to be the whole value of the request's only member of this name: the name stands
    once, and no escape hides another quote or name; the list has no lists or strings within it,
    where the cut could have ended.
    """
    before, behind = found.around
    name = before.rpartition(DATA)
    once = before.count(DATA) == 1 and DATA not in behind and name[2].strip() == b":"
    whole = found.values.count(b"[") == 1 and b'"' not in found.values
    return once and whole and b"\\" not in before and b"\\" not in behind


def values_of(found: Cut) -> Lazy:
    """Parse the values; None where they are no JSON alone, such as the first of nested lists."""
    return parse_strictly(found.values)
