"""Classify and Regress: decodes Examples to features by name, and encodes the replies.

Sources: example.proto, feature.proto, input.proto, classification.proto, regression.proto; the
checks and their phrases are those of classifier.cc and regressor.cc of TensorFlow Serving.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final

from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.core.values.requests import Features, FeatureValues
from ie_serving.core.values.tensors import CLASSES, OUTPUTS, SCORES, Array
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.counting import check_sum
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.request_messages import parse

Classes = list[tuple[bytes, float]]
"""Label and score of each class of one example."""


def classes_of(outputs: Mapping[str, Array], rows: int) -> list[Classes]:
    """Read the classes of each example.

    Args:
        outputs: `classes`, `scores` or both, each of shape (rows, number of classes); without
            `classes` labels are empty, without `scores` scores are 0.
        rows: number of examples.

    Raises:
        InvalidRequest: the shapes are others.
    """
    found = {alias: outputs[alias] for alias in (CLASSES, SCORES) if alias in outputs}
    for alias, array in found.items():
        _check_classes(alias, array, rows)
    # One of both is there at least: a signature without either is not one for Classify.
    widths = [array.shape[1] for array in found.values()]
    if widths[0] != widths[-1]:
        raise InvalidRequest(
            f"Tensors class and score should match in dim_size(1). Got {widths[0]} vs. {widths[-1]}"
        )
    labels = found[CLASSES].tolist() if CLASSES in found else repeat([b""] * widths[0], rows)
    scores = found[SCORES].tolist() if SCORES in found else repeat([0.0] * widths[0], rows)
    return [list(zip(*row, strict=True)) for row in zip(labels, scores, strict=True)]


def _check_classes(alias: str, array: Array, rows: int) -> None:
    if array.ndim != 2:
        raise InvalidRequest(
            f'Expected Tensor shape: [batch_size num_classes] but got {_shape(array)} for "{alias}"'
        )
    if len(array) != rows:
        raise InvalidRequest(f"Expected {alias} output batch size of {rows}. Got: {len(array)}")


def values_of(outputs: Mapping[str, Array], rows: int) -> list[float]:
    """Read the value of each example.

    Args:
        outputs: `outputs`, of shape (rows) or (rows, 1).
        rows: number of examples.

    Raises:
        InvalidRequest: the shape is another.
    """
    array = outputs[OUTPUTS]
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        raise InvalidRequest(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got"
            f" {_shape(array)}"
        )
    if len(array) != rows:
        raise InvalidRequest(
            f"Input batch size did not match output batch size: {rows} vs. {len(array)}"
        )
    values: list[float] = array.reshape(-1).tolist()
    return values


def _shape(array: Array) -> str:
    return f"[{','.join(map(str, array.shape))}]"


def classification_result(examples: Sequence[Classes]) -> Proto:
    """Make a ClassificationResult; bytes of a label that are no UTF-8 become U+FFFD."""
    result = messages.ClassificationResult()
    for classes in examples:
        entry = result.classifications.add()
        for label, score in classes:
            entry.classes.add(label=label.decode("utf-8", "replace"), score=score)
    return result


def regression_result(values: Sequence[float]) -> Proto:
    """Make a RegressionResult."""
    result = messages.RegressionResult()
    for value in values:
        result.regressions.add(value=value)
    return result


MOST_SERIALIZED: Final = 1 << 20
"""Most features written for a model that parses Examples itself, those of the context once for each
example; more are refused: a request of some KB could cost hours."""
MOST_SERIALIZED_BYTES: Final = 1 << 28
"""Most bytes of these features; more are refused."""

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
    context = _MessageFeatures(held.context) if kind == "example_list_with_context" else None
    return with_context([_MessageFeatures(example) for example in held.examples], context)


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
    return (
        [_ContextFeatures(example, context) for example in examples] if context else list(examples)
    )


class _MessageFeatures(Mapping[str, FeatureValues]):
    """The features of one Example, read from its message on access.

    A model that parses Examples itself gets the message, so its features are never read here.
    """

    __slots__ = ("_held", "message")

    def __init__(self, message: Proto) -> None:
        self.message = message
        self._held = message.features.feature

    def __getitem__(self, name: str) -> FeatureValues:
        if name not in self._held:  # protobuf's map would add it
            raise KeyError(name)
        return _values(self._held[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class _ContextFeatures(Mapping[str, FeatureValues]):
    """The features of one example, and after them those of the context.

    Looked up, not merged: merging would copy a context of thousands of features for each of
    thousands of examples, though a model reads only a few of them.
    """

    __slots__ = ("context", "own")

    def __init__(self, own: Features, context: Features) -> None:
        self.own = own
        self.context = context

    def __getitem__(self, name: str) -> FeatureValues:
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
    return with_context(
        [_MessageFeatures(parse(messages.Example, each)) for each in serialized], None
    )


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
    if isinstance(features, _MessageFeatures):
        return bytes(features.message.SerializeToString())
    if isinstance(features, _ContextFeatures):  # of a feature twice, protobuf takes the last
        return _serialized(features.context) + _serialized(features.own)
    example = messages.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values:
            getattr(feature, _KIND[type(values[0])]).value.extend(values)
    return bytes(example.SerializeToString())


def _values(feature: Proto) -> FeatureValues:
    kind = feature.WhichOneof("kind")
    # The slice copies protobuf's list into Python's, which does not keep the message in memory.
    values: FeatureValues = getattr(feature, kind).value[:] if kind else []
    return values
