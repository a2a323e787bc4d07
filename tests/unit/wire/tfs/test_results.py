"""Outputs become classes or values, or one of TensorFlow Serving's refusals."""

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array
from ie_serving.wire.tfs import classify_regress

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
def test_classes(outputs: dict[str, Array], expected: list[classify_regress.Classes]) -> None:
    assert classify_regress.classes_of(outputs, 2) == expected
    message = classify_regress.classification_result(expected)
    shown = [[(c.label.encode(), c.score) for c in e.classes] for e in message.classifications]
    assert shown == [[(k.replace(b"\xff", "�".encode()), s) for k, s in e] for e in expected]


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_values(shape: tuple[int, ...]) -> None:
    values = classify_regress.values_of(
        {"outputs": np.array([0.5, 2], np.float32).reshape(shape)}, 2
    )
    assert values == [0.5, 2.0]
    assert [r.value for r in classify_regress.regression_result(values).regressions] == values


@pytest.mark.parametrize(
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
def test_shapes_that_are_no_classes(outputs: dict[str, Array], text: str) -> None:
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
def test_shapes_that_are_no_values(shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        classify_regress.values_of({"outputs": np.zeros(shape, np.float32)}, 2)
    assert text in str(caught.value)
