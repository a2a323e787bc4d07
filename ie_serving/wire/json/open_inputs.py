"""JSON for a signature that takes any inputs: which dtype is meant, where nobody declares one.

An input with the name of one of the model's behind has that dtype, if the JSON can be read so: the
number 5 as a float, but not "five". All else says it itself: an integer is int64, any other number
float32, as TensorFlow has it, a text or `{"b64": ...}` a string.
"""

from collections.abc import Mapping

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import DataType, TensorSpec
from ie_serving.wire.json.rapidjson.document import Json
from ie_serving.wire.json.value import is_base64, is_named

OWN: Mapping[str, DataType] = {
    "b": DataType.BOOL,
    "i": DataType.INT64,
    "u": DataType.UINT64,
    "f": DataType.FP32,
    "U": DataType.STRING,
}
"""What JSON says itself, by numpy's kinds."""
READ_AS: Mapping[str, str] = {"i": "iuf", "u": "iuf", "f": "f", "b": "b", "U": "O"}
"""As which kinds of the model's dtypes values of a kind may be read."""


def open_specs(value: Json, behind: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    """Give the inputs that a body names, with dtypes and any shape.

    Args:
        value: of `inputs` or `instances`.
        behind: inputs of the model behind whatever takes these.

    Raises:
        InvalidRequest: it names none, and the model behind has not just one.
    """
    rows = value if isinstance(value, list) else []
    first = rows[0] if rows else value
    if is_named(first):
        columns = {
            name: [row.get(name) for row in rows if is_named(row)] if rows else first[name]
            for name in first
        }
    elif len(behind) == 1:
        columns = {next(iter(behind)): value}
    else:
        raise InvalidRequest('name each input: {"inputs": {NAME: value}}')
    return {
        name: TensorSpec(name, _dtype(column, behind.get(name)), None, "")
        for name, column in columns.items()
    }


def _dtype(value: Json, behind: TensorSpec | None) -> DataType:
    kind = _kind(value)
    if behind is not None and behind.dtype.numpy.kind in READ_AS[kind]:
        return behind.dtype
    return OWN[kind]


def _kind(value: Json) -> str:
    leaf = value
    while isinstance(leaf, list) and leaf:
        leaf = leaf[0]
    if isinstance(leaf, str) or is_base64(leaf):
        return "U"
    try:
        kind = np.asarray(value).dtype.kind
    except (ValueError, OverflowError):  # lists of unequal lengths: to decode them says where
        return "f"
    return kind if kind in OWN else "f"
