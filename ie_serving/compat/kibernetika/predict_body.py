"""Reads bodies of `/predict`: arrays by name, and the form of the reply.

JSON: {"inputs": {NAME: {"dtype": number of tensorflow.DataType, "data": value}},
       "out_filter": [NAME, ...], "out_mime_type": "image/png"}
Forms: fields `{type}_{input}`, and `out_filters`, `out_mime_type`.

Source: the HTTP proxy of kibernetika-serving. Here a value that is no `bool`, an unknown type and a
field without one are refused, and `uint16` stays what it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType, Signature, strings
from ie_serving.wire.form import MIME, FormField, ReplyForm, form_of, is_form, parts_of
from ie_serving.wire.json.rapidjson.document import JsonValue, parse_document
from ie_serving.wire.json.tensor import decode_tensor

INPUTS, FILTER = "inputs", "out_filter"
FORM_FILTER: Final = "out_filters"
RAW_INPUT: Final = "raw_input"
LONGEST_SHOWN: Final = 100
"""Characters of a wrong value in an error; it may be as long as the request."""

TYPES: Final[Mapping[str, DataType]] = {
    "float": DataType.FP32,
    "double": DataType.FP64,
    "int": DataType.INT32,
    "int8": DataType.INT8,
    "int16": DataType.INT16,
    "int32": DataType.INT32,
    "int64": DataType.INT64,
    "uint8": DataType.UINT8,
    "uint16": DataType.UINT16,
    "bool": DataType.BOOL,
    "byte": DataType.STRING,
    "bytes": DataType.STRING,
    "string": DataType.STRING,
    "strings": DataType.STRING,
}
"""Types of form fields by the words before their names."""
SCALARS: Final = ("byte", "string")
"""Types by which a file is one string, not a list of one."""
BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class FormRequest:
    """A request.

    Attributes:
        values: values of the inputs by name: arrays, or JSON that is still to be decoded.
        outputs: names of those that are wanted; none are all.
        mime_type: type of the reply that the client asks for; empty for JSON.
    """

    values: Mapping[str, "tuple[DataType, JsonValue] | Array"]
    outputs: tuple[str, ...] = ()
    mime_type: str = ""
    form: ReplyForm = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", form_of(self.mime_type))

    def decode(self, _: Signature) -> tuple[dict[str, Array], ReplyForm]:
        """Give all inputs. Raises: InvalidRequest for a value that its dtype cannot hold."""
        arrays = {
            name: value if isinstance(value, np.ndarray) else _decoded(name, *value)
            for name, value in self.values.items()
        }
        return arrays, self.form


def parse(body: bytes, content_type: bytes) -> FormRequest:
    """Read a body.

    Raises:
        InvalidRequest: naming the place and what was expected there.
    """
    return _of_form(parts_of(body, content_type)) if is_form(content_type) else _of_json(body)


def _decoded(name: str, dtype: DataType, value: JsonValue) -> Array:
    try:
        return decode_tensor(value, dtype)
    except InvalidRequest as error:
        raise InvalidRequest(f'input "{name}": {error}') from error


# -- JSON -------------------------------------------------------------------------------------


def _of_json(body: bytes) -> FormRequest:
    document = parse_document(body)
    inputs = document.get(INPUTS) if isinstance(document, dict) else None
    if not isinstance(inputs, dict):
        raise InvalidRequest('expected {"inputs": {NAME: {"dtype": 1, "data": [...]}}}')
    mime_type = document.get(MIME) or ""
    if not isinstance(mime_type, str):
        raise InvalidRequest(f'"{MIME}" must be a text, such as "image/png"')
    values = {name: _typed(name, value) for name, value in inputs.items()}
    return FormRequest(values, _names(document.get(FILTER)), mime_type)


def _names(given: JsonValue) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidRequest(f'"{FILTER}" must be a list of names of outputs')
    return tuple(given)


def _typed(name: str, value: JsonValue) -> tuple[DataType, JsonValue]:
    if not isinstance(value, dict) or "data" not in value:
        raise InvalidRequest(f'input "{name}": expected {{"dtype": 1, "data": [...]}}')
    number = value.get("dtype")
    dtype = BY_NUMBER.get(number) if type(number) is int else None
    if dtype is None:
        known = ", ".join(f"{each.number} ({each.word})" for each in DataType)
        has = str(number)[:LONGEST_SHOWN]
        raise InvalidRequest(f'input "{name}": dtype {has} given; expected one of {known}')
    return dtype, value["data"]


# -- forms ------------------------------------------------------------------------------------


def _of_form(parts: Sequence[FormField]) -> FormRequest:
    special: dict[str, str] = {}
    fields: dict[str, list[FormField]] = {}
    for part in parts:
        if part.name in (FORM_FILTER, MIME, RAW_INPUT) and not part.is_file:
            special[part.name] = _text(part)
        else:
            fields.setdefault(part.name, []).append(part)
    if special.get(RAW_INPUT, "no") not in ("no", "false", ""):
        raise InvalidRequest(f"{RAW_INPUT} is not supported: send each input as a field of its own")
    values: dict[str, Array] = {}
    for field_name, given in fields.items():
        name, array = _input(field_name, given)
        if name in values:
            raise InvalidRequest(f'input "{name}" is sent with several types: send it once')
        values[name] = array
    wanted = (each.strip() for each in special.get(FORM_FILTER, "").split(","))
    return FormRequest(values, tuple(each for each in wanted if each), special.get(MIME, ""))


def _text(part: FormField) -> str:
    return str(part.data, "utf-8", "replace").strip()


def _input(field_name: str, parts: Sequence[FormField]) -> tuple[str, Array]:
    kind, _, name = field_name.partition("_")
    if kind not in TYPES or not name:
        raise InvalidRequest(
            f'field "{field_name}": expected TYPE_INPUT, such as float_x; types are'
            f" {', '.join(TYPES)}"
        )
    return name, _file(kind, name, parts) if parts[0].is_file else _texts(kind, name, parts)


def _file(kind: str, name: str, parts: Sequence[FormField]) -> Array:
    dtype = TYPES[kind]
    if dtype is not DataType.STRING:
        if len(parts) > 1:
            raise InvalidRequest(f'input "{name}": {len(parts)} files; send one')
        return np.frombuffer(parts[0].data, np.uint8).astype(dtype.numpy)  # a number for each byte
    found = [bytes(part.data) for part in parts]
    if kind in SCALARS and len(found) == 1:
        return strings(found).reshape(())
    return strings(found)


def _texts(kind: str, name: str, parts: Sequence[FormField]) -> Array:
    dtype = TYPES[kind]
    words = [word.strip() for part in parts for word in _text(part).split(",")]
    if dtype is DataType.STRING:
        return strings([word.encode() for word in words])
    try:
        if dtype is DataType.BOOL:
            return np.array([BOOLEANS[word.lower()] for word in words], np.bool_)
        read = float if dtype.numpy.kind == "f" else int
        return np.array([read(word) for word in words], dtype.numpy)
    except (ValueError, KeyError, OverflowError) as error:
        given = ",".join(words)[:LONGEST_SHOWN]
        raise InvalidRequest(f'input "{name}": expected {kind}, got {given!r}') from error
