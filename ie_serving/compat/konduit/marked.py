"""Inputs of a Predict that are written as Konduit's data: objects with reserved keys.

    {"inputs": {"x": {"@NDArrayType": "FLOAT", "@NDArrayShape": [3], "@NDArrayDataBase64": "..."}}}

The data may stand alone, too, without `inputs` around it. Arrays keep their dtype, which is then
compared with the model's; images and bytes are a batch of one, or a list of them one of several.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from ie_serving.compat.konduit.data import Image, value_of
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, Specs, TensorSpec, strings
from ie_serving.wire.json.rapidjson.document import Json
from ie_serving.wire.json.tensor import decode_tensor

MARK: Final = "@"
"""How reserved keys begin."""


def is_marked(value: Json) -> bool:
    """Tell whether a value is such an object, or a list that begins with one."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and any(key.startswith(MARK) for key in first)


def decoded(values: Json, specs: Specs, optional: Collection[str]) -> dict[str, Array] | None:
    """Decode an object that has a marked input; None for any other value. See below."""
    if not isinstance(values, dict) or not any(map(is_marked, values.values())):
        return None
    return decode_marked(values, specs, optional)


def decode_marked(
    values: Mapping[str, Json], specs: Specs, optional: Collection[str]
) -> dict[str, Array]:
    """Decode an object with a value for each input; other keys are ignored.

    Args:
        values: by name; of a model with one input a single value may have any name.
        specs: of the inputs.
        optional: inputs that may be left out.

    Raises:
        InvalidRequest: an input is missing, or a value cannot be read.
    """
    if len(specs) == len(values) == 1:
        values = dict(zip(specs, values.values(), strict=True))
    missing = [name for name in specs if name not in values and name not in optional]
    if missing:
        raise InvalidRequest(f"Missing named input: {missing[0]} in 'inputs' object.")
    return {
        name: _array(name, values[name], spec) for name, spec in specs.items() if name in values
    }


def _array(name: str, value: Json, spec: TensorSpec) -> Array:
    if not is_marked(value):
        return decode_tensor(value, spec.dtype)
    found = value_of(value, name)
    if isinstance(found, np.ndarray):
        return found
    files = found if isinstance(found, list) else [found]
    return strings([_bytes(name, each) for each in files])


def _bytes(name: str, value: Any) -> bytes:  # noqa: ANN401  whatever the data holds
    if isinstance(value, Image):
        return value.data
    if isinstance(value, bytes):
        return value
    raise InvalidRequest(f'input "{name}": expected an array, or images or bytes, one or a list')
