"""Decodes Examples to features by name. Source: example.proto, feature.proto, input.proto."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.core.values.requests import Feature, Features
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.counting import check_sum
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.request_messages import parse

MOST_SERIALIZED: Final = 1 << 20
"""Most features written for a model that parses Examples itself, those of the context once for each
example; more are refused: a request of some KB could cost hours."""
MOST_SERIALIZED_BYTES: Final = 1 << 28
"""The same in bytes."""

_KIND = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def examples_of(message: Proto) -> list[Features]:
    """Read the examples of an Input, each with the context merged in.

    Raises:
        InvalidRequest: there is none.
    """
    kind = message.WhichOneof("kind")
    if kind is None:
        raise InvalidRequest(advised("Input is empty.", " Send at least one example"))
    held = getattr(message, kind)
    context = _Received(held.context) if kind == "example_list_with_context" else None
    return with_context([_Received(example) for example in held.examples], context)


def count_of(message: Proto) -> int:
    """Count the examples of an Input, without reading them."""
    kind = message.WhichOneof("kind")
    return len(getattr(message, kind).examples) if kind else 0


def with_context(examples: Sequence[Features], context: Features | None) -> list[Features]:
    """Give each example the features of `context` that it does not have itself.

    Raises:
        InvalidRequest: there is no example.
    """
    if not examples:
        raise InvalidRequest(advised("Input is empty.", " Send at least one example"))
    return [_WithContext(example, context) for example in examples] if context else list(examples)


class _Received(Mapping[str, Feature]):
    """The features of one Example, read from its message on access.

    A model that parses Examples itself gets the message, so its features are never read here.
    """

    __slots__ = ("_held", "message")

    def __init__(self, message: Proto) -> None:
        self.message = message
        self._held = message.features.feature

    def __getitem__(self, name: str) -> Feature:
        if name not in self._held:  # protobuf's map would add it
            raise KeyError(name)
        return _values(self._held[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class _WithContext(Mapping[str, Feature]):
    """The features of one example, and after them those of the context.

    Looked up, not merged: merging would copy a context of thousands of features for each of
    thousands of examples, though a model reads only a few of them.
    """

    __slots__ = ("context", "own")

    def __init__(self, own: Features, context: Features) -> None:
        self.own = own
        self.context = context

    def __getitem__(self, name: str) -> Feature:
        own = self.own
        return own[name] if name in own else self.context[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in self.context if name not in self.own)

    def __len__(self) -> int:
        return len(self.own.keys() | self.context.keys())


def parse_examples(serialized: Sequence[bytes]) -> list[Features]:
    """Parse serialized Examples, as Predict takes them for a signature that classifies.

    Raises:
        InvalidRequest: there is none, or one is malformed.
    """
    check_sum(serialized, messages.Example.DESCRIPTOR)
    return with_context([_Received(parse(messages.Example, each)) for each in serialized], None)


def serialize_examples(examples: Sequence[Features]) -> list[bytes]:
    """Serialize features, for a model that parses Examples itself; an empty one has no kind.

    Raises:
        InvalidRequest: the context is so large that all examples together would be too large.
    """
    written: list[bytes] = []
    features = size = 0
    for example in examples:
        features += len(example)
        if features > MOST_SERIALIZED or size > MOST_SERIALIZED_BYTES:
            raise InvalidRequest(
                f"the examples with their context are more than {MOST_SERIALIZED} features or"
                f" {MOST_SERIALIZED_BYTES} bytes: send them in parts"
            )
        written.append(_serialized(example))
        size += len(written[-1])
    return written


def _serialized(features: Features) -> bytes:
    if isinstance(features, _Received):
        return bytes(features.message.SerializeToString())
    if isinstance(features, _WithContext):  # of a feature twice, protobuf takes the last
        return _serialized(features.context) + _serialized(features.own)
    example = messages.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values:
            getattr(feature, _KIND[type(values[0])]).value.extend(values)
    return bytes(example.SerializeToString())


def _values(feature: Proto) -> Feature:
    kind = feature.WhichOneof("kind")
    # The slice copies protobuf's list into Python's, which does not keep the message in memory.
    values: Feature = getattr(feature, kind).value[:] if kind else []
    return values
