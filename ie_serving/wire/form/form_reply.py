"""Encodes replies other than JSON objects: the bytes of one output, or a list of texts.

`out_mime_type` selects them. Source: the HTTP proxy of kibernetika-serving.
"""

import enum
import re
from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array
from ie_serving.wire.json.pretty import DENSE, encoded, quoted_text

MIME: Final = "out_mime_type"
_MIME_TYPE: Final = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+*-]+(;[ !-:<-~]*)?", re.IGNORECASE)
"""Types that are safe in a header of the reply: ASCII without line ends."""


class Form(enum.Enum):
    """The form of a reply."""

    JSON = "application/json"
    """An object with the outputs."""
    TEXTS = "text/plain"
    """A JSON list of strings."""
    RAW = "the type that is asked for"
    """The bytes of the one output."""


def form_of(mime_type: str) -> Form:
    """Give the requested form; the empty type is JSON.

    Raises:
        InvalidRequest: it is no media type.
    """
    if mime_type and not _MIME_TYPE.fullmatch(mime_type):
        raise InvalidRequest(f"{MIME} is {mime_type[:80]!r}; expected a type such as image/png")
    kind = mime_type.partition(";")[0].strip().lower()
    if kind.startswith(("image/", "video/", "audio/")) or kind == "application/octet-stream":
        return Form.RAW
    return Form.TEXTS if kind == Form.TEXTS.value else Form.JSON


def encode_raw(outputs: Mapping[str, Array]) -> bytes:
    """Give the bytes of the one output there is.

    Raises:
        InvalidRequest: there are several outputs, or it is not the bytes of one file.
    """
    if len(outputs) != 1:
        raise InvalidRequest(
            f"{MIME} asks for one output, and there are {', '.join(outputs) or 'none'}: name one in"
            " out_filter"
        )
    ((name, array),) = outputs.items()
    values = _flat(array)
    if len(values) != 1 or not isinstance(values[0], bytes):
        raise InvalidRequest(f'output "{name}" is not the bytes of one file: ask for it as JSON')
    return values[0]


def encode_texts(outputs: Mapping[str, Array]) -> bytes:
    """Write the strings of all outputs as one list.

    Raises:
        InvalidRequest: an output holds no strings.
    """
    texts = [_text(name, each) for name, array in outputs.items() for each in _flat(array)]
    return encoded(DENSE.array([quoted_text(each) for each in texts], 0))


def _flat(array: Array) -> list[object]:
    return list(array.ravel().tolist())


def _text(name: str, value: object) -> str:
    if not isinstance(value, bytes):
        raise InvalidRequest(f'output "{name}" holds no texts: ask for it as JSON')
    return value.decode("utf-8", "replace")
