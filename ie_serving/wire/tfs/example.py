"""Examples on the wire -> features by name. Source: example.proto, feature.proto, input.proto."""

from collections.abc import Sequence

from ie_serving.core.errors import InvalidRequest
from ie_serving.core.requests import Feature, Features
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.requests import parse

_KIND = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def examples_of(message: Proto) -> list[Features]:
    """Read the examples of an Input, each with the context merged in.

    Raises:
        InvalidRequest: there is none.
    """
    kind = message.WhichOneof("kind")
    if kind is None:
        raise InvalidRequest("Input is empty. Send at least one example")
    held = getattr(message, kind)
    context = _features(held.context) if kind == "example_list_with_context" else None
    return with_context([_features(example) for example in held.examples], context)


def with_context(examples: Sequence[Features], context: Features | None) -> list[Features]:
    """Give each example the features of `context` that it does not have itself.

    Raises:
        InvalidRequest: there is no example.
    """
    if not examples:
        raise InvalidRequest("Input is empty. Send at least one example")
    return [{**context, **example} for example in examples] if context else list(examples)


def parse_examples(serialized: Sequence[bytes]) -> list[Features]:
    """Parse serialized Examples, as Predict takes them for a signature that classifies.

    Raises:
        InvalidRequest: there is none, or one is malformed.
    """
    return with_context([_features(parse(messages.Example, each)) for each in serialized], None)


def serialize_examples(examples: Sequence[Features]) -> list[bytes]:
    """Serialize features, for a model that parses Examples itself; an empty one has no kind."""
    return [_serialized(features) for features in examples]


def _serialized(features: Features) -> bytes:
    example = messages.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values:
            getattr(feature, _KIND[type(values[0])]).value.extend(values)
    return bytes(example.SerializeToString())


def _features(example: Proto) -> Features:
    return {name: _values(feature) for name, feature in example.features.feature.items()}


def _values(feature: Proto) -> Feature:
    kind = feature.WhichOneof("kind")
    # The slice copies protobuf's list into Python's, which does not keep the message in memory.
    values: Feature = getattr(feature, kind).value[:] if kind else []
    return values
