"""Konduit's data: a JSON object of values by name, some of them objects with reserved keys.

Bytes are `{"@BytesBase64"}`, arrays `{"@NDArrayType", "@NDArrayShape", "@NDArrayDataBase64"}` with
big-endian numbers, images `{"@ImageFormat", "@ImageData"}`. Boxes, points and nested data stay
objects. Source: the interface `Data` of Konduit Serving, and the example of its tests.

Inputs of a Predict may be written as such data:

    {"inputs": {"x": {"@NDArrayType": "FLOAT", "@NDArrayShape": [3], "@NDArrayDataBase64": "..."}}}

The data may stand alone, too, without `inputs` around it. Arrays keep their dtype, which is then
compared with the model's; images and bytes are a batch of one, or a list of them one of several.
"""

import base64
import binascii
import json
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, ServingError
from ie_serving.core.values.tensors import Array, Specs, TensorSpec, strings
from ie_serving.wire.json.rapidjson.document import JsonValue
from ie_serving.wire.json.tensor import decode_tensor

Data = Mapping[str, Any]
"""Values by name: str, int, float, bool, bytes, list, `Image`, an array, or data again."""

BYTES: Final = "@BytesBase64"
BYTES_LIST: Final = "@BytesArray"
FORMAT, IMAGE = "@ImageFormat", "@ImageData"
TYPE, SHAPE, NUMBERS = "@NDArrayType", "@NDArrayShape", "@NDArrayDataBase64"

LONGEST_PLACE: Final = 100
"""Characters of a place in an error. Without a limit places of nested objects would take the square
of the bytes that their keys take."""

_DTYPES: Mapping[str, str] = {
    "DOUBLE": ">f8",
    "FLOAT": ">f4",
    "FLOAT16": ">f2",
    "INT64": ">i8",
    "INT32": ">i4",
    "INT16": ">i2",
    "INT8": "i1",
    "UINT64": ">u8",
    "UINT32": ">u4",
    "UINT16": ">u2",
    "UINT8": "u1",
    "BOOL": "?",
}
_TYPES = {np.dtype(form).newbyteorder("="): name for name, form in _DTYPES.items()}


@dataclass(frozen=True)
class Image:
    """A picture as a file has it.

    Attributes:
        format: such as `PNG` or `JPG`.
        data: the file's bytes.
    """

    format: str
    data: bytes


def decode(body: bytes) -> dict[str, Any]:
    """Read data. Raises: InvalidRequest."""
    try:
        found = json.loads(body)
        if not isinstance(found, Mapping):
            raise InvalidRequest('the body is no object; expected one such as {"x": 1.5}')
        return {name: value_of(value, name[:LONGEST_PLACE]) for name, value in found.items()}
    except ValueError as error:
        raise InvalidRequest(f"the body is no JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest(
            "lists or objects lie too deep within each other: send flatter data"
        ) from None


def value_of(given: Any, name: str) -> Any:  # noqa: ANN401 (whatever JSON has)
    """Read one value and its elements. Raises: InvalidRequest, with `name` as its place."""
    if isinstance(given, list):
        return [value_of(each, name) for each in given]
    if not isinstance(given, Mapping):
        return given
    if BYTES in given:
        return _bytes(given[BYTES], name)
    if BYTES_LIST in given:
        return _listed_bytes(given[BYTES_LIST], name)
    if IMAGE in given:
        return Image(str(given.get(FORMAT, "PNG")).upper(), _bytes(given[IMAGE], name))
    if NUMBERS in given or TYPE in given:
        return _array(given, name)
    return {key: value_of(value, f"{name}.{key}"[:LONGEST_PLACE]) for key, value in given.items()}


def _bytes(given: object, name: str) -> bytes:
    try:
        return base64.b64decode(given, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError, binascii.Error) as error:
        raise InvalidRequest(f'"{name}": expected base64: {error}') from None


def _listed_bytes(given: object, name: str) -> bytes:
    try:
        return bytes(each & 0xFF for each in given)  # type: ignore[attr-defined]  # signed in Java
    except TypeError:
        raise InvalidRequest(f'"{name}": {BYTES_LIST}: expected a list of numbers') from None


def _array(given: Mapping[str, Any], name: str) -> Array:
    form = _DTYPES.get(str(given.get(TYPE)))
    if form is None:
        known = ", ".join(_DTYPES)
        has = str(given.get(TYPE))[:LONGEST_PLACE]
        raise InvalidRequest(f'"{name}": {TYPE} is {has!r}; expected one of {known}')
    dtype, shape = np.dtype(form), given.get(SHAPE)
    data = _bytes(given.get(NUMBERS), name)
    sizes = shape if isinstance(shape, list) else [None]
    whole = all(isinstance(size, int) and size >= 0 for size in sizes)
    if whole and math.prod(sizes) * dtype.itemsize == len(data):
        with suppress(ValueError, OverflowError):  # more dimensions, or larger ones, than numpy has
            return np.frombuffer(data, dtype).reshape(sizes).astype(dtype.newbyteorder("="))
    has = str(shape)[:LONGEST_PLACE]
    raise InvalidRequest(
        f'"{name}": {len(data)} bytes of {given[TYPE]}; expected as many as {SHAPE} {has} takes'
    )


def encode(data: Data) -> bytes:
    """Write data.

    Raises:
        ServingError: a value has no form, such as NaN outside of an array.
    """
    found = {name: written(value, name) for name, value in data.items()}
    try:
        return json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise ServingError(f"the pipeline's output has no JSON: {error}") from None


def written(value: Any, name: str) -> Any:  # noqa: ANN401 (whatever a step gives)
    """Give a value as JSON has it. Raises: ServingError."""
    if isinstance(value, np.ndarray):
        return _written_array(value, name)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes | bytearray | memoryview):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, Image):
        return {FORMAT: value.format, IMAGE: base64.b64encode(value.data).decode()}
    if isinstance(value, Mapping):
        return {str(key): written(each, f"{name}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [written(each, name) for each in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ServingError(
        f'output "{name}" is {type(value).__name__}, which is no data of Konduit: give an array, a'
        " number, a text, a list or an object"
    )


def _written_array(array: Array, name: str) -> Any:  # noqa: ANN401
    if array.dtype == np.object_:  # texts, as models give them
        return written(_texts(array.tolist()), name)
    kind = _TYPES.get(array.dtype.newbyteorder("="))
    if kind is None:
        raise ServingError(
            f'output "{name}" is an array of {array.dtype}, which Konduit has not; expected one of'
            f" {', '.join(dtype.name for dtype in _TYPES)}"
        )
    raw = array.astype(_DTYPES[kind]).tobytes()
    return {TYPE: kind, SHAPE: [*array.shape], NUMBERS: base64.b64encode(raw).decode()}


def _texts(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return [_texts(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


MARK: Final = "@"
"""First character of reserved keys."""


def is_marked(value: JsonValue) -> bool:
    """Tell whether a value is such an object, or a list that begins with one."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and any(key.startswith(MARK) for key in first)


def decoded(values: JsonValue, specs: Specs, optional: Collection[str]) -> dict[str, Array] | None:
    """Decode an object that has a marked input; None for any other value. See below."""
    if not isinstance(values, dict) or not any(map(is_marked, values.values())):
        return None
    return decode_marked(values, specs, optional)


def decode_marked(
    values: Mapping[str, JsonValue], specs: Specs, optional: Collection[str]
) -> dict[str, Array]:
    """Decode an object with a value for each input; other keys are ignored.

    Args:
        values: values by name; the single value for a model with one input may have any name.
        specs: specs of the inputs.
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
        name: _marked_array(name, values[name], spec)
        for name, spec in specs.items()
        if name in values
    }


def _marked_array(name: str, value: JsonValue, spec: TensorSpec) -> Array:
    if not is_marked(value):
        return decode_tensor(value, spec.dtype)
    found = value_of(value, name)
    if isinstance(found, np.ndarray):
        return found
    files = found if isinstance(found, list) else [found]
    return strings([_marked_bytes(name, each) for each in files])


def _marked_bytes(name: str, value: Any) -> bytes:  # noqa: ANN401  whatever the data holds
    if isinstance(value, Image):
        return value.data
    if isinstance(value, bytes):
        return value
    raise InvalidRequest(f'input "{name}": expected an array, or images or bytes, one or a list')
