"""Forms as the body of a Predict: files for inputs of images or strings, JSON for all others.

A file's field is named by its input; with one input any name does. Files of one input are a batch,
in their order. `signature_name` is a field, too, as it is a key in JSON. The reply is the one that
`instances` has: a list with an entry for each row.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ie_serving.core.errors import InvalidRequest
from ie_serving.core.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.wire.form.multipart import Part, parts_of
from ie_serving.wire.json.document import SIGNATURE_NAME
from ie_serving.wire.json.rapidjson.document import parse_document
from ie_serving.wire.json.request import Format
from ie_serving.wire.json.tensor import decode_tensor


class FormBody:
    """The body of a Predict that is a form, its inputs not yet decoded.

    Attributes:
        signature_name: the signature that is asked for; empty for `serving_default`.
    """

    __slots__ = ("_parts", "signature_name")

    def __init__(self, parts: Sequence[Part]) -> None:
        named = [part for part in parts if _names_signature(part)]
        # Asked anew, not looked up in `named`: that would compare the bytes of all parts.
        self._parts = [part for part in parts if not _names_signature(part)]
        self.signature_name = str(named[0].data, "utf-8", "replace") if named else ""

    def decode(self, signature: Signature) -> tuple[dict[str, Array], Format]:
        """Decode all inputs; see `PredictBody.decode`.

        Raises:
            InvalidRequest: a field that is no input, a file for numbers, or what is no JSON.
        """
        fields: dict[str, list[Part]] = {}
        for part in self._parts:
            fields.setdefault(_input_of(part, signature.inputs), []).append(part)
        arrays = {name: _decoded(signature.inputs[name], parts) for name, parts in fields.items()}
        return arrays, Format.ROW

    def decode_at_once(self, _: Signature) -> None:
        """Never do so: files are seldom small."""


def parse_form(body: bytes, content_type: bytes) -> FormBody:
    """Find the fields of a form.

    Raises:
        InvalidRequest: it is none.
    """
    return FormBody(parts_of(body, content_type))


def _names_signature(part: Part) -> bool:
    return part.name == SIGNATURE_NAME and not part.is_file


def _input_of(part: Part, inputs: Mapping[str, TensorSpec]) -> str:
    if part.name in inputs:
        return part.name
    if len(inputs) == 1 and part.is_file:
        return next(iter(inputs))
    known = ", ".join(sorted(inputs))
    raise InvalidRequest(f'the form has a field "{part.name}"; the inputs are {known}')


def _decoded(spec: TensorSpec, parts: Sequence[Part]) -> Array:
    takes_bytes = spec.dtype is DataType.STRING or spec.image is not None
    # An input of images takes numbers as well, as JSON; only a file name tells the two apart.
    if takes_bytes and (parts[0].is_file or spec.dtype is DataType.STRING):
        return _strings([bytes(part.data) for part in parts])
    if parts[0].is_file:
        raise InvalidRequest(
            f"input {spec} takes numbers, and no images: send them as JSON, in a field without a"
            " file name"
        )
    if len(parts) > 1:
        raise InvalidRequest(f'the form has {len(parts)} fields "{spec.name}"; send one of JSON')
    return decode_tensor(parse_document(bytes(parts[0].data)), spec.dtype)


def _strings(values: list[bytes]) -> Array:
    # Filled afterwards: of a list of bytes numpy makes an array of one width, and cuts zero bytes.
    array: Array = np.empty(len(values), np.object_)
    array[:] = values
    return array
