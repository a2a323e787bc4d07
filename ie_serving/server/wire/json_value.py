"""What TensorFlow Serving's error texts say about a JSON value, and how values carry bytes.

Source: json_tensor.cc of TensorFlow Serving; type words of RapidJSON.
"""

import base64
import binascii
import contextlib
import math
from typing import Final, TypeGuard

import orjson

from ie_serving.server.wire.json_document import Json, bytes_of

SHOWN_BYTES = 256
"""An error shows at most so much of a value."""

BASE64_KEY = "b64"

CANNOT_DECODE_BASE64 = "Unable to base64 decode: the standard alphabet is expected, padded or not"

_KINDS: Final = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
_WORDS: Final = {None: "null", True: "true", False: "false"}


def kind_of(value: Json) -> str:
    """Name the JSON type: Null, False, True, Object, Array, String or Number."""
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return str(value)
    return _KINDS[type(value)]


def is_base64(value: Json) -> TypeGuard[dict[str, str]]:
    """Tell whether this is an object with the one key `b64` and a string under it."""
    return type(value) is dict and len(value) == 1 and type(value.get(BASE64_KEY)) is str


def is_named(value: Json) -> TypeGuard[dict[str, Json]]:
    """Tell whether this is an object that names inputs, rather than one that holds base64."""
    return type(value) is dict and not is_base64(value)


def decode_base64(text: str) -> bytes | None:
    """Decode the standard alphabet, padded or not, with white space in it or not.

    Returns:
        The bytes; None when `text` is anything else.
    """
    if any(space in text for space in " \t\n\r"):
        text = "".join(text.split())
    digits = text.rstrip("=")
    padding = -len(digits) % 4
    if len(text) - len(digits) not in (0, padding):
        return None
    try:
        return base64.b64decode(digits + "=" * padding, validate=True)
    except (binascii.Error, ValueError):
        return None


def clean(text: str) -> str:
    """Replace what is not UTF-8, so that the text can go into errors and logs."""
    return bytes_of(text).decode("utf-8", "replace")


def show(value: Json) -> str:
    """Print a value for an error text.

    Arrays stand on one line, members of objects on lines of their own with four spaces a level.
    The text ends after `SHOWN_BYTES`, or before the first number that is not finite.
    """
    page = _Page()
    with contextlib.suppress(_PageFull):
        page.write(value, 0)
    return page.text()


class _PageFull(Exception):
    """Nothing more is to be printed."""


class _Page:
    """Takes up to `SHOWN_BYTES`. Every level of nesting prints a byte, so depth is bounded too."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._left = SHOWN_BYTES

    def text(self) -> str:
        return b"".join(self._pieces)[:SHOWN_BYTES].decode("utf-8", "replace")

    def write(self, value: Json, level: int) -> None:
        if isinstance(value, list):
            self._write_array(value, level)
        elif isinstance(value, dict):
            self._write_object(value, level)
        else:
            self._put(_scalar(value))

    def _write_array(self, items: list[Json], level: int) -> None:
        self._put(b"[")
        for index, item in enumerate(items):
            if index:
                self._put(b", ")
            self.write(item, level + 1)
        self._put(b"]")

    def _write_object(self, members: dict[str, Json], level: int) -> None:
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


def _scalar(value: Json) -> bytes:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _PageFull
        return repr(value).replace("e+", "e").encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value).encode()
    return _WORDS[value].encode()


def _quoted(text: str) -> bytes:
    return orjson.dumps(clean(text[:SHOWN_BYTES]))
