"""Examples on the wire become features by name; outputs become classes, values or refusals."""

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import Features
from ie_serving.core.values.tensors import Array
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs import classify_regress
from ie_serving.wire.tfs.classify_regress import (
    count_of,
    examples_of,
    serialize_examples,
    with_context,
)
from tests.tables import named_by

A_KB = bytes(1 << 10)


def example(**features: list[int]) -> object:
    message = messages.Example()
    for name, values in features.items():
        message.features.feature[name].int64_list.value.extend(values)
    return message


def test_an_example_overrides_the_context() -> None:
    message = messages.Input()
    held = message.example_list_with_context
    held.context.CopyFrom(example(a=[1], b=[2]))
    held.examples.extend([example(b=[3]), example(c=[4])])
    assert examples_of(message) == [
        {"a": [1], "b": [3]},
        {"a": [1], "b": [2], "c": [4]},
    ]


def test_each_kind_of_list_is_read() -> None:
    message = messages.Input()
    feature = message.example_list.examples.add().features.feature
    feature["f"].float_list.value.append(0.5)
    feature["s"].bytes_list.value.append(b"\xff")
    feature["none"].SetInParent()
    assert examples_of(message) == [{"f": [0.5], "s": [b"\xff"], "none": []}]


@pytest.mark.parametrize("kind", ["example_list", "example_list_with_context"])
def test_examples_are_counted_without_being_read(kind: str) -> None:
    message = messages.Input()
    assert count_of(message) == 0
    getattr(message, kind).examples.extend([example(a=[1]), example()])
    assert count_of(message) == 2


def test_no_examples_are_an_empty_input() -> None:
    with_list = messages.Input()
    with_list.example_list.SetInParent()
    for message in (messages.Input(), with_list):
        with pytest.raises(InvalidRequest, match="Input is empty"):
            examples_of(message)
    with pytest.raises(InvalidRequest, match="Input is empty"):
        with_context([], {"a": [1]})


def test_a_context_is_looked_up_behind_the_example() -> None:
    (merged,) = with_context([{"b": [3]}], {"a": [1], "b": [2]})
    assert dict(merged) == {"b": [3], "a": [1]}
    assert (len(merged), merged.get("none")) == (2, None)


@pytest.mark.parametrize("wide", ["features", "bytes"])
def test_the_context_cannot_be_written_without_end(
    wide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a model that parses Examples, it is written into each of them."""
    monkeypatch.setattr(classify_regress, "MOST_SERIALIZED", 1 << 12)
    monkeypatch.setattr(classify_regress, "MOST_SERIALIZED_BYTES", 1 << 16)
    context: Features = {f"{n}": [] for n in range(100)} if wide == "features" else {"a": [A_KB]}
    serialize_examples(with_context([{}] * 40, context))
    with pytest.raises(InvalidRequest, match="send them in parts"):
        serialize_examples(with_context([{}] * 100, context))


def test_examples_are_handed_to_a_model_as_they_came() -> None:
    message = messages.Input()
    held = message.example_list_with_context
    held.context.CopyFrom(example(a=[1], b=[2]))
    held.examples.extend([example(b=[3])])
    (written,) = serialize_examples(examples_of(message))
    assert messages.Example.FromString(written) == example(a=[1], b=[3])
    message.example_list.examples.extend([example(b=[3], c=[])])
    (written,) = serialize_examples(examples_of(message))
    assert written == message.example_list.examples[0].SerializeToString()


def test_asking_for_a_feature_adds_none() -> None:
    message = messages.Input()
    message.example_list.examples.extend([example(b=[3])])
    (features,) = examples_of(message)
    assert features.get("none") is None
    assert list(features) == ["b"]


LABELS = np.array([[b"a", b"b"], [b"c", b"\xff"]], np.object_)
SCORED = np.array([[0.25, 0.75], [1, 0]], np.float32)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (
            {"classes": LABELS, "scores": SCORED},
            [[(b"a", 0.25), (b"b", 0.75)], [(b"c", 1.0), (b"\xff", 0.0)]],
        ),
        ({"classes": LABELS}, [[(b"a", 0.0), (b"b", 0.0)], [(b"c", 0.0), (b"\xff", 0.0)]]),
        ({"scores": SCORED}, [[(b"", 0.25), (b"", 0.75)], [(b"", 1.0), (b"", 0.0)]]),
    ],
    ids=["both", "no scores are 0", "no labels are empty"],
)
def test_classes_are_pairs_of_label_and_score_by_row(
    outputs: dict[str, Array], expected: list[classify_regress.Classes]
) -> None:
    assert classify_regress.classes_of(outputs, 2) == expected
    message = classify_regress.classification_result(expected)
    shown = [[(c.label.encode(), c.score) for c in e.classes] for e in message.classifications]
    assert shown == [[(k.replace(b"\xff", "�".encode()), s) for k, s in e] for e in expected]


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_values_of_regress_are_one_by_row(shape: tuple[int, ...]) -> None:
    values = classify_regress.values_of(
        {"outputs": np.array([0.5, 2], np.float32).reshape(shape)}, 2
    )
    assert values == [0.5, 2.0]
    assert [r.value for r in classify_regress.regression_result(values).regressions] == values


@named_by(
    "text",
    ("outputs", "text"),
    [
        (
            {"scores": SCORED[0]},
            "Expected Tensor shape: [batch_size num_classes] but got [2]",
        ),
        ({"classes": LABELS[:1]}, "Expected classes output batch size of 2. Got: 1"),
        ({"scores": SCORED[:1]}, "Expected scores output batch size of 2. Got: 1"),
        (
            {"classes": LABELS[:, :1], "scores": SCORED},
            "Tensors class and score should match in dim_size(1). Got 1 vs. 2",
        ),
    ],
)
def test_shapes_that_are_no_classes_are_refused(outputs: dict[str, Array], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        classify_regress.classes_of(outputs, 2)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (
            (2, 2),
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got"
            " [2,2]",
        ),
        ((), "but got []"),
        ((3,), "Input batch size did not match output batch size: 2 vs. 3"),
    ],
)
def test_shapes_that_are_no_values_are_refused(shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        classify_regress.values_of({"outputs": np.zeros(shape, np.float32)}, 2)
    assert text in str(caught.value)
