"""`POST /` of simple_tensorflow_serving: reads its body, and writes its reply.

    {"model_name": "default", "model_version": 1, "data": {"keys": [[11.0]], "features": [[1, 1]]}}

Only `data` is required; it holds inputs by name. What its clients rely on beyond that:

- a bare list, or the one key `data`, `image` or `images`, is the only input of a model;
- whole numbers may be written as floats for inputs of integers, as TensorFlow's sessions take them;
- images are base64 with `-` and `_`, or files of a form in the fields `image` and `images`.

The reply is an object with each output by its name.

Source: its documentation and code, version 0.8.2.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

import numpy as np
import orjson

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import (
    Array,
    Arrays,
    DataType,
    Signature,
    Specs,
    TensorSpec,
    strings,
)
from ie_serving.wire.form import FormField, is_form, parts_of
from ie_serving.wire.json.document import parse_object, plain
from ie_serving.wire.json.inputs import first_scalar
from ie_serving.wire.json.pretty import DENSE, encoded, quoted_text, write_value
from ie_serving.wire.json.rapidjson.document import JsonValue
from ie_serving.wire.json.response import is_finite, known
from ie_serving.wire.json.tensor import MAX_RANK, decode_tensor, is_base64, is_named, try_tensor

DEFAULT_MODEL: Final = "default"
DATA: Final = "data"
OF_THE_ONLY_INPUT: Final = (DATA, "image", "images")
"""Keys and fields that mean the only input of a model that has no input of this name."""
REFUSED: Final = {
    "preprocess": "functions in marshal files are not run: put them into a kernel or hook",
    "postprocess": "functions in marshal files are not run: put them into a kernel or hook",
    "run_profile": "a request is not profiled: the metrics have the time of each step",
}
"""Switches that this server does not carry out, each with the way to do without."""

_STANDARD: Final = str.maketrans("-_", "+/")

PREDICT: Final = "predict"
PROBABILITIES: Final = "predict_proba"
LOGARITHMS: Final = "predict_log_proba"
PMML: Final = "pmml"
"""Platform whose reply has everything within one object."""
NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "scikitlearn": {"label": PREDICT, "y": PREDICT, "probabilities": PROBABILITIES},
    "xgboost": {"y": "result"},
}
"""Names of the drivers' outputs in the original, by platform; others keep their names."""
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY


class StfsBody:
    """The body of a `POST /`, its inputs not yet decoded.

    Attributes:
        model: servable that is asked for, with its signature.
    """

    __slots__ = ("_data", "_decodes", "model")

    def __init__(self, given: Mapping[str, JsonValue], data: JsonValue) -> None:
        """Take what stands beside the data, and the data.

        Raises:
            InvalidRequest: a value of a wrong kind, or a switch of `REFUSED`.
        """
        for name, advice in REFUSED.items():
            if _is_on(given.get(name)):
                raise InvalidRequest(f'"{name}" is not supported: {advice}, and leave the key out')
        name, signature = given.get("model_name", DEFAULT_MODEL), given.get("signature_name", "")
        if not isinstance(name, str) or not isinstance(signature, str):
            raise InvalidRequest('"model_name" and "signature_name" must be strings')
        self.model = ModelSpec(name, _version(given.get("model_version")), None, signature)
        self._decodes = _is_on(given.get("base64_decode"))
        self._data = data

    def decode(self, signature: Signature) -> tuple[dict[str, Array], None]:
        """Decode all inputs: new arrays by name, and no form of the reply, which has one alone.

        Raises:
            InvalidRequest: an input is missing, or a value cannot be read as its dtype.
        """
        specs = signature.inputs
        values = self._values_by_input(specs)
        missing = [name for name in specs if name not in values and name not in signature.defaults]
        if missing:
            raise InvalidRequest(
                f'"data" lacks {", ".join(missing)}; the model takes'
                f" {', '.join(map(str, specs.values()))}"
            )
        return {
            name: self._array(values[name], spec) for name, spec in specs.items() if name in values
        }, None

    def _values_by_input(self, specs: Specs) -> Mapping[str, JsonValue]:
        data = self._data
        if len(specs) != 1:
            if not is_named(data):
                known = ", ".join(specs)
                raise InvalidRequest(f'"data" must be an object with a value for each of {known}')
            return data
        (only,) = specs
        if not is_named(data):
            return {only: data}
        if only not in data and len(data) == 1 and next(iter(data)) in OF_THE_ONLY_INPUT:
            return {only: next(iter(data.values()))}
        return data

    def _array(self, value: JsonValue, spec: TensorSpec) -> Array:
        if _are_files(value):
            return strings([self._file(file, spec) for file in value])
        if spec.dtype is DataType.STRING:
            return decode_tensor(_decoded(value, texts=self._decodes), DataType.STRING)
        if spec.image is not None and isinstance(first_scalar(value), str | dict):
            return decode_tensor(_decoded(value, texts=True), DataType.STRING)
        return _numbers(value, spec.dtype)

    def _file(self, file: bytes, spec: TensorSpec) -> bytes:
        if spec.dtype is DataType.STRING:
            # The original passes the file to models as base64; they decode it themselves.
            return file if self._decodes else base64.urlsafe_b64encode(file)
        if spec.image is None:
            raise InvalidRequest(f"input {spec} takes numbers, and no images: send them as JSON")
        return file


def parse(body: bytes, content_type: bytes) -> StfsBody:
    """Read a body: a form where its Content-Type says so, else JSON.

    Raises:
        InvalidRequest: it is neither, or has no data.
    """
    if is_form(content_type):
        return _of_form(parts_of(body, content_type))
    document = plain(parse_object(body))
    if DATA not in document:
        found = ", ".join(document) or "none"
        raise InvalidRequest(
            f'the key "data" is missing; expected {{"data": {{INPUT: VALUE}}}}, found keys: {found}'
        )
    return StfsBody(document, document[DATA])


def _of_form(parts: Sequence[FormField]) -> StfsBody:
    files: dict[str, list[bytes]] = {}
    texts: dict[str, str] = {}
    for part in parts:
        if part.is_file:
            files.setdefault(part.name, []).append(bytes(part.data))
        else:
            texts[part.name] = str(part.data, "utf-8", "replace")
    # Both fields together are one batch, first the one image.
    images = [each for name in ("image", "images") for each in files.pop(name, ())]
    data: dict[str, Any] = {**files, **({"images": images} if images else {})}
    if not data:
        raise InvalidRequest(
            'the form has no file: send the image in the field "image", as curl -F'
            " 'image=@cat.png' does; with the @"
        )
    return StfsBody(texts, data)


def _version(given: JsonValue) -> int | None:
    if given is None or given == "":
        return None
    if type(given) is int or (isinstance(given, str) and given.isascii() and given.isdecimal()):
        number = int(given) if len(str(given)) <= 18 else -2
        if number >= 0:
            return number
    if given in (-1, "-1"):  # the original's word for the newest
        return None
    raise InvalidRequest('"model_version" must be a whole number, such as 1')


def _is_on(given: JsonValue) -> bool:
    return given is True or (isinstance(given, str) and given.lower() in ("true", "1"))


def _are_files(value: JsonValue) -> TypeGuard[list[bytes]]:
    return isinstance(value, list) and bool(value) and isinstance(value[0], bytes)


def _decoded(value: JsonValue, ranks: int = MAX_RANK, *, texts: bool) -> JsonValue:
    """Give base64 of either alphabet as `decode_tensor` reads it: in objects, or in texts too."""
    if isinstance(value, list):
        # Deeper lists are no tensor, which `decode_tensor` says.
        return [_decoded(each, ranks - 1, texts=texts) for each in value] if ranks else value
    if isinstance(value, str) and texts:
        return {"b64": value.translate(_STANDARD)}
    if is_base64(value):
        return {"b64": value["b64"].translate(_STANDARD)}
    return value


def _numbers(value: JsonValue, dtype: DataType) -> Array:
    array = try_tensor(value, dtype)
    if array is None and dtype.numpy.kind in "iu":
        array = _as_integers(value, dtype)
    return decode_tensor(value, dtype) if array is None else array


def _as_integers(value: JsonValue, dtype: DataType) -> Array | None:
    """Read floats that are whole as integers; None for others."""
    floats = try_tensor(value, DataType.FP64)
    if floats is None:
        return None
    with np.errstate(invalid="ignore"):
        whole = floats.astype(dtype.numpy)
    return whole if bool((whole == floats).all()) else None


def encode(outputs: Arrays, specs: Specs, platform: str) -> bytes:
    """Write a reply.

    Args:
        outputs: arrays by name; not kept.
        specs: the signature's outputs.
        platform: platform of the model.
    """
    if platform == PMML:
        # One record was asked, and its values are the reply.
        own = {
            name: array[0, ...] if array.shape[:1] == (1,) else array
            for name, array in outputs.items()
        }
        return b'{"result": %b}' % encode(own, specs, "")
    names = NAMES.get(platform, {})
    members = []
    for name, array in outputs.items():
        shown = names.get(name, name)
        members.append(_member(shown, _value(array, specs[name])))
        if shown == PROBABILITIES:
            members.append(_member(LOGARITHMS, _value(_logarithms(array), specs[name])))
    return b"{%b}" % b", ".join(members)


def _member(name: str, value: bytes) -> bytes:
    return encoded(quoted_text(name)) + b": " + value


def _value(array: Array, spec: TensorSpec) -> bytes:
    if spec.dtype is DataType.STRING or not is_finite(array):
        return encoded(write_value(array, spec, DENSE))
    return orjson.dumps(
        np.ascontiguousarray(array) if array.ndim else known(array)[()], option=_NUMPY
    )


def _logarithms(array: Array) -> Array:
    with np.errstate(divide="ignore"):  # of 0 it is -Infinity, as in scikit-learn
        logarithms: Array = np.log(array)
    return logarithms
