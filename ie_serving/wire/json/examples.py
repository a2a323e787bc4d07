"""Reads REST bodies of Classify and Regress to Examples.

Such a body is read as one document of Python values: its features have names and kinds of their
own, so there is no array of plain numbers in it for the readers of `request.py` to take.

Source: json_tensor.cc of TensorFlow Serving; RESTful API guide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.wire.json.document import SIGNATURE_NAME, parse_object, plain, signature_name_of
from ie_serving.wire.json.rapidjson.document import JsonValue, bytes_of
from ie_serving.wire.json.rapidjson.printing import clean, kind_of, show
from ie_serving.wire.json.tensor import CANNOT_DECODE_BASE64, decode_base64, is_base64, is_named

FeatureList = list[int] | list[float] | list[bytes]
"""Values of one feature; an empty list is a feature without a kind."""
FeatureLists = dict[str, FeatureList]


@dataclass(frozen=True)
class ExamplesBody:
    """The body of a Classify or Regress.

    Attributes:
        signature_name: the requested signature; empty for `serving_default`.
        context: features that every example has, None when the body has no `context`.
        examples: features by name, at least one example.
    """

    signature_name: str
    context: FeatureLists | None
    examples: Sequence[FeatureLists]


def parse_examples(body: bytes, method: str) -> ExamplesBody:
    """Decode the body of a Classify or Regress, all of it; `method` is which of the two.

    Raises:
        InvalidRequest: no JSON, no `examples`, or a feature that an Example cannot hold.
    """
    document = parse_object(body)
    keys = list(document)  # simdjson throws a C++ exception for a key that it does not find
    signature_name = signature_name_of(document) if SIGNATURE_NAME in keys else ""
    context = _features(plain(document["context"])) if "context" in keys else None
    if "examples" not in keys:
        raise InvalidRequest(
            advised(
                f"JSON Value: {show(plain(document))} When method is classify, key 'examples' is"
                " expected and was not found",
                f": {method} takes a list of objects there",
            )
        )
    examples = plain(document["examples"])
    if not isinstance(examples, list):
        raise InvalidRequest(
            f"JSON Value: {show(plain(document))} Expecting 'examples' value to be an list/array"
        )
    if not examples:
        raise InvalidRequest(
            f"JSON Value: {show(plain(document))} 'examples' value is an empty array"
        )
    return ExamplesBody(signature_name, context, [_features(example) for example in examples])


def _features(example: JsonValue) -> FeatureLists:
    """Decode one Example.

    Raises:
        InvalidRequest: no object, or a feature whose values are of several kinds or of none.
    """
    if not isinstance(example, dict):
        raise InvalidRequest(f"Example must be JSON object but got JSON {kind_of(example)}")
    return {clean(name): _feature(clean(name), value) for name, value in example.items()}


# A single value counts as a list of one: clients leave the brackets out.
def _feature(name: str, value: JsonValue) -> FeatureList:
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
        if kind == "int64" and element > INT64_MAX:
            raise InvalidRequest(
                f"Feature: {name} has uint64_t element. Only int64_t is supported."
            )
    if kinds and kinds[0] == "bytes":
        return [_bytes(element) for element in elements]
    return [int(element) for element in elements] if kinds[:1] == ["int64"] else elements


def _bytes(value: JsonValue) -> bytes:
    if not is_base64(value):
        return bytes_of(value)
    content = decode_base64(value["b64"])
    if content is None:
        raise InvalidRequest(CANNOT_DECODE_BASE64)
    return content


# bool is a subclass of int, and TensorFlow Serving counts it as one here.
_FEATURE_KINDS: Final = {int: "int64", bool: "int64", float: "float", str: "bytes", dict: "bytes"}
