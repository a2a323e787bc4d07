"""REST bodies -> what is asked for: numpy inputs of a Predict, Examples of a Classify or Regress.

simdjson parses first. What it refuses goes to `json_document`, which knows TensorFlow Serving's
dialect and the texts of its errors. Regular arrays of numbers are copied out of simdjson's buffers
(`json_numbers`); everything else becomes Python values (`json_tensor`). Whichever way a body
takes, the result is the same, and every error about values comes from the slower one.

Of equal keys the first one counts: at the top level, among inputs and among features.

Source: json_tensor.cc of TensorFlow Serving; RESTful API guide.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import simdjson

from ie_serving.errors import InvalidRequest
from ie_serving.server.wire.json_document import Json, bytes_of, parse_document
from ie_serving.server.wire.json_inputs import decode_columns, decode_rows
from ie_serving.server.wire.json_numbers import Lazy, parse_strictly, read_array, read_numbers
from ie_serving.server.wire.json_slices import Slices, sliced
from ie_serving.server.wire.json_value import (
    CANNOT_DECODE_BASE64,
    clean,
    decode_base64,
    is_base64,
    is_named,
    kind_of,
    show,
)
from ie_serving.tensors import Array, DataType, Signature, TensorSpec

Feature = list[int] | list[float] | list[bytes]
"""Values of one feature; an empty list is a feature without a kind."""
Features = dict[str, Feature]

SLICED = 1 << 20
"""From this many bytes on a body is read slice by slice, where that can be done."""

SIGNATURE_NAME = "signature_name"
INSTANCES = "instances"
INPUTS = "inputs"

_INT64_MAX: Final = (1 << 63) - 1


class Format(enum.Enum):
    """How a Predict body lays out its inputs, and its reply the outputs."""

    ROW = "row"
    """`instances` and `predictions`: a list with one entry for each row of the batch."""

    COLUMN = "column"
    """`inputs` and `outputs`: whole tensors by name."""


class PredictBody:
    """The body of a Predict whose syntax is checked, its inputs not yet decoded.

    Attributes:
        signature_name: the signature that is asked for; empty for `serving_default`.
    """

    __slots__ = ("_body", "_document", "_keys", "signature_name")

    def __init__(self, body: bytes, document: Lazy) -> None:
        self._body = body
        self._document = document
        self._keys = list(document)  # simdjson throws inside for a key that is looked up in vain
        self.signature_name = _signature_name(document) if SIGNATURE_NAME in self._keys else ""

    def decode(self, signature: Signature) -> tuple[dict[str, Array], Format]:
        """Decode all inputs.

        Returns:
            New arrays by input name, dtypes as the signature has them; shapes as the body has
            them, not compared with the signature's. And the format that the reply must have.

        Raises:
            InvalidRequest: an input is missing, or a value cannot be read as its dtype.
        """
        if not signature.inputs:
            name = self.signature_name or "DEFAULT"
            raise InvalidRequest(f"Failed to get input map for signature: {name}")
        form = self._form()
        values = self._document[INSTANCES if form is Format.ROW else INPUTS]
        arrays = self._numbers(values, signature.inputs, form)
        if arrays is None:
            dtypes = {name: spec.dtype for name, spec in signature.inputs.items()}
            arrays = self._decode_values(values, dtypes, form)
        return arrays, form

    def _form(self) -> Format:
        rows, columns = INSTANCES in self._keys, INPUTS in self._keys
        if rows and columns:
            raise InvalidRequest(
                f"JSON Value: {show(_plain(self._document))} Not formatted correctly expecting"
                " only one of 'inputs' or 'instances' keys to exist "
            )
        if not rows and not columns:
            raise InvalidRequest("Missing 'inputs' or 'instances' key")
        return Format.ROW if rows else Format.COLUMN

    def _numbers(
        self, values: Lazy, specs: Mapping[str, TensorSpec], form: Format
    ) -> dict[str, Array] | None:
        """Decode without Python objects where that is possible; else return None."""
        named = type(values) is simdjson.Object and form is Format.COLUMN
        if named and not all(name in values for name in specs):
            return None
        if len(specs) == 1 and (named or type(values) is simdjson.Array):
            ((name, spec),) = specs.items()
            only = values[name] if named else values
            if form is Format.ROW and len(only) == 0:
                return None
            array = read_array(only, spec.dtype, self._body)
            return None if array is None else {name: array}
        if named:
            dtypes = {name: spec.dtype for name, spec in specs.items()}
            return read_numbers({name: values[name] for name in specs}, dtypes, self._body)
        return None

    def _decode_values(
        self, values: Lazy, dtypes: dict[str, DataType], form: Format
    ) -> dict[str, Array]:
        plain = _plain(values, 2)
        if form is Format.COLUMN:
            return decode_columns(plain, dtypes)
        if not isinstance(plain, list):
            fault = "Expecting 'instances' to be an list/array"
        elif not plain:
            fault = "No values in 'instances' array"
        else:
            return decode_rows(plain, dtypes)
        raise InvalidRequest(f"JSON Value: {show(_plain(self._document))} {fault}")


@dataclass(frozen=True)
class ExamplesBody:
    """The body of a Classify or Regress.

    Attributes:
        signature_name: the signature that is asked for; empty for `serving_default`.
        context: features that every example has, None when the body has no `context`.
        examples: features by name, at least one example.
    """

    signature_name: str
    context: Features | None
    examples: Sequence[Features]


class SlicedBody:
    """The body of a Predict with very many numbers, of which only the ends have been looked at.

    Attributes:
        signature_name: the signature that is asked for; empty for `serving_default`.
    """

    __slots__ = ("_body", "_slices", "signature_name")

    def __init__(self, body: bytes, slices: Slices) -> None:
        self._body = body
        self._slices = slices
        self.signature_name = slices.signature_name

    def decode(self, signature: Signature) -> tuple[dict[str, Array], Format]:
        """Decode as `PredictBody.decode` does.

        Raises:
            InvalidRequest: also what `parse_predict` raises for smaller bodies.
        """
        if len(signature.inputs) == 1:
            ((name, spec),) = signature.inputs.items()
            known = self._slices.name in (None, name)
            array = self._slices.read(spec.dtype) if known else None
            if array is not None:
                form = Format.ROW if self._slices.key == INSTANCES else Format.COLUMN
                return {name: array}, form
        return PredictBody(self._body, _parse_object(self._body)).decode(signature)


def parse_predict(body: bytes) -> PredictBody | SlicedBody:
    """Check the syntax of a Predict body and find the signature that it asks for.

    Raises:
        InvalidRequest: no JSON, no object, or a `signature_name` that is not a string.
    """
    slices = sliced(body) if len(body) >= SLICED else None
    if slices:
        return SlicedBody(body, slices)
    return PredictBody(body, _parse_object(body))


def parse_examples(body: bytes, method: str) -> ExamplesBody:
    """Decode the body of a Classify or Regress, all of it; `method` is which of the two.

    Raises:
        InvalidRequest: no JSON, no `examples`, or a feature that an Example cannot hold.
    """
    document = _plain(_parse_object(body))
    signature_name = _signature_name(document) if SIGNATURE_NAME in document else ""
    context = _features(document["context"]) if "context" in document else None
    if "examples" not in document:
        raise InvalidRequest(
            f"JSON Value: {show(document)} When method is classify, key 'examples' is expected"
            f" and was not found: {method} takes a list of objects there"
        )
    examples = document["examples"]
    if not isinstance(examples, list):
        raise InvalidRequest(
            f"JSON Value: {show(document)} Expecting 'examples' value to be an list/array"
        )
    if not examples:
        raise InvalidRequest(f"JSON Value: {show(document)} 'examples' value is an empty array")
    return ExamplesBody(signature_name, context, [_features(example) for example in examples])


def _parse_object(body: bytes) -> Lazy:
    """Parse to a dict, or to simdjson's object, which looks up keys in the same way."""
    document = parse_strictly(body)
    if document is None:
        document = parse_document(body)
    if type(document) is not simdjson.Object and not isinstance(document, dict):
        raise InvalidRequest(f"JSON Value: {show(_plain(document))} Is not object")
    return document


def _signature_name(document: Lazy) -> str:
    name = document[SIGNATURE_NAME]
    if not isinstance(name, str):
        raise InvalidRequest(
            f"JSON Value: {show(_plain(document))} not formatted correctly. 'signature_name' key"
            " must be a string value."
        )
    return clean(name)


def _plain(value: Lazy, levels: int = 3) -> Json:
    """Turn simdjson's objects into Python's, the first of equal keys counting on `levels`."""
    if isinstance(value, simdjson.Object):
        members: dict[str, Json] = {}
        for name, member in value.items():  # a look-up would stop at a zero byte in the name
            if name not in members:
                members[name] = _plain(member, levels - 1)
        return members
    if not isinstance(value, simdjson.Array):
        return value
    if levels and len(value) and isinstance(value[0], simdjson.Object):
        return [_plain(element, levels - 1) for element in value]
    return value.as_list()


def _features(example: Json) -> Features:
    """Decode one Example.

    Raises:
        InvalidRequest: no object, or a feature whose values are of several kinds or of none.
    """
    if not isinstance(example, dict):
        raise InvalidRequest(f"Example must be JSON object but got JSON {kind_of(example)}")
    return {clean(name): _feature(clean(name), value) for name, value in example.items()}


def _feature(name: str, value: Json) -> Feature:
    elements = value if isinstance(value, list) else [value]
    kinds = list(map(_FEATURE_KINDS.get, map(type, elements)))
    for element, kind in zip(elements, kinds, strict=True):
        if kind is None or (kind == "bytes" and is_named(element)):
            raise InvalidRequest(
                f"Feature: {name} has element with unexpected JSON type: {kind_of(element)}"
            )
        if kind != kinds[0]:
            raise InvalidRequest(
                f"Unexpected element type in feature: {name} expecting type: {kinds[0]}"
            )
        if kind == "int64" and element > _INT64_MAX:
            raise InvalidRequest(
                f"Feature: {name} has uint64_t element. Only int64_t is supported."
            )
    if kinds and kinds[0] == "bytes":
        return [_bytes(element) for element in elements]
    return [int(element) for element in elements] if kinds[:1] == ["int64"] else elements


def _bytes(value: Json) -> bytes:
    if not is_base64(value):
        return bytes_of(value)
    content = decode_base64(value["b64"])
    if content is None:
        raise InvalidRequest(CANNOT_DECODE_BASE64)
    return content


_FEATURE_KINDS: Final = {int: "int64", bool: "int64", float: "float", str: "bytes", dict: "bytes"}
