"""JSON values in TensorFlow Serving's error texts: RapidJSON's type names and pretty printer.

Source: prettywriter.h and document.h of RapidJSON 1.1.0; JsonValueToString of json_tensor.cc.
"""

import contextlib
import math
from typing import Final

import orjson

from ie_serving.wire.json.rapidjson.document import JsonValue, bytes_of

SHOWN_BYTES = 256
"""Bytes of a value that an error shows. TensorFlow Serving cuts there too; and a body of many
megabytes must not come back as its error."""

_KINDS: Final = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
_WORDS: Final = {None: "null", True: "true", False: "false"}


def kind_of(value: JsonValue) -> str:
    """Name the JSON type: Null, False, True, Object, Array, String or Number."""
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return str(value)
    return _KINDS[type(value)]


def clean(text: str) -> str:
    """Replace bytes that are not UTF-8, so that the text can go into errors and logs."""
    return bytes_of(text).decode("utf-8", "replace")


def show(value: JsonValue) -> str:
    """Print a value for an error text.

    Arrays stand on one line, members of objects on lines of their own with four spaces a level.
    The text ends after `SHOWN_BYTES`, or before the first number that is not finite.
    """
    page = _Page()
    with contextlib.suppress(_PageFull):
        page.write(value, 0)
    return page.text()


class _PageFull(Exception):
    """The page is full, so printing ends."""


class _Page:
    """Takes up to `SHOWN_BYTES`. Every level of nesting prints a byte, so depth is bounded too."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._left = SHOWN_BYTES

    def text(self) -> str:
        """Give the printed text; a last character that was cut is replaced."""
        return b"".join(self._pieces)[:SHOWN_BYTES].decode("utf-8", "replace")

    def write(self, value: JsonValue, level: int) -> None:
        """Print a value with its members; raises _PageFull when the page is full."""
        if isinstance(value, list):
            self._write_array(value, level)
        elif isinstance(value, dict):
            self._write_object(value, level)
        else:
            self._put(_scalar(value))

    def _write_array(self, items: list[JsonValue], level: int) -> None:
        self._put(b"[")
        for index, item in enumerate(items):
            if index:
                self._put(b", ")
            self.write(item, level + 1)
        self._put(b"]")

    def _write_object(self, members: dict[str, JsonValue], level: int) -> None:
        self._put(b"{")
        for index, (name, value) in enumerate(members.items()):
            self._put(b",\n" if index else b"\n")
            self._put(b"    " * (level + 1) + _quoted(name) + b": ")
            self.write(value, level + 1)
        self._put(b"\n" + b"    " * level + b"}" if members else b"}")

    def _put(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._left -= len(piece)
        if self._left < 0:
            raise _PageFull


def _scalar(value: JsonValue) -> bytes:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _PageFull
        # Python writes 1e+20 where RapidJSON writes 1e20.
        return repr(value).replace("e+", "e").encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value).encode()
    return _WORDS[value].encode()


# Cut before it is printed: a string of megabytes must not be escaped for 256 bytes of it.
def _quoted(text: str) -> bytes:
    return orjson.dumps(clean(text[:SHOWN_BYTES]))
