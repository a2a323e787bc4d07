"""JSON values that carry bytes: `{"b64": "..."}`, TensorFlow Serving's form for binary values.

Source: json_tensor.cc of TensorFlow Serving; RESTful API guide, "Encoding binary values".
"""

import base64
import binascii
from typing import TypeGuard

from ie_serving.core.values.errors import advised
from ie_serving.wire.json.rapidjson.document import Json

BASE64_KEY = "b64"

CANNOT_DECODE_BASE64 = advised(
    "Unable to base64 decode", ": the standard alphabet is expected, padded or not"
)


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
    # Existing padding has to be complete; Python's decoder requires padding, so it is added again.
    digits = text.rstrip("=")
    padding = -len(digits) % 4
    if len(text) - len(digits) not in (0, padding):
        return None
    try:
        return base64.b64decode(digits + "=" * padding, validate=True)
    except (binascii.Error, ValueError):
        return None
