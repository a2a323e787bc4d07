"""Examples become one batch, or a fault that names example and feature."""

import numpy as np
import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidRequest, RequestTooLarge
from ie_serving.core.values.requests import Features
from ie_serving.core.values.tensors import Array, DataType, TensorSpec
from ie_serving.inference.features import decode_examples


def batch(examples: list[Features], dtype: DataType, shape: tuple[int, ...] | None) -> Array:
    return decode_examples(examples, {"x": TensorSpec("x", dtype, shape, "x:0")})["x"]


@pytest.mark.parametrize(
    ("dtype", "shape", "rows", "expected"),
    [
        (DataType.FP32, (-1, 2), [[0.5, 1.0], [2.0, 3.0]], [[0.5, 1], [2, 3]]),
        (DataType.FP32, (-1, 2), [[1, 2], [0.5, 3.0]], [[1, 2], [0.5, 3]]),
        (DataType.INT64, (-1,), [[2**62], [-1]], [2**62, -1]),
        (DataType.STRING, (-1, 1), [[b"a\x00"], [b""]], [[b"a\x00"], [b""]]),
        (DataType.FP32, (-1, 2, -1), [[1.0] * 4], [[[1, 1], [1, 1]]]),
        (DataType.INT32, None, [[1, 2, 3]], [[1, 2, 3]]),
    ],
    ids=["floats", "integers do for floats", "integers", "bytes", "an open dimension", "any rank"],
)
def test_an_example_is_a_row(
    dtype: DataType, shape: tuple[int, ...] | None, rows: list[list[float]], expected: object
) -> None:
    assert batch([{"x": row} for row in rows], dtype, shape).tolist() == expected


def test_features_travel_in_the_dtype_of_their_list() -> None:
    assert batch([{"x": [1]}], DataType.INT8, (-1, 1)).dtype == np.int64
    assert batch([{"x": [1.0]}], DataType.FP64, (-1, 1)).dtype == np.float32


def test_a_feature_for_many_examples_stays_within_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long one of a context, which is a row for each example, asked for any size of memory."""
    examples: list[Features] = [{"x": [1.0] * 5000}] * 20
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + 20 * 5000 * 4)
    assert batch(examples, DataType.FP32, (-1, -1)).shape == (20, 5000)
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + 20 * 5000 * 4 - 1)
    with pytest.raises(RequestTooLarge, match="send less at once"):
        batch(examples, DataType.FP32, (-1, -1))


def test_a_feature_that_no_input_asks_for_is_ignored() -> None:
    assert batch([{"x": [1], "other": [b"a"]}], DataType.INT64, (-1,)).tolist() == [1]


@pytest.mark.parametrize(
    ("examples", "text"),
    [
        ([{"x": [1.0, 2.0]}, {}], 'example 1: feature "x" is missing'),
        ([{"x": [1.0, 2.0]}, {"x": []}], 'example 1: feature "x" is missing or empty'),
        ([{"x": [1.0, 2.0]}, {"x": [1.0]}], 'example 1: feature "x" has 1 values; example 0 has 2'),
        ([{"x": [b"a"]}], 'example 0: feature "x" is a bytes_list; expected a float_list'),
        ([{"x": [1.0] * 3}], 'example 0: feature "x" has 3 values, which do not fill'),
    ],
    ids=["missing", "empty", "ragged", "wrong kind", "wrong length"],
)
def test_faults_name_example_and_feature(examples: list[Features], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        batch(examples, DataType.FP32, (-1, 2))
    assert text in str(caught.value)


def test_floats_are_no_integers() -> None:
    with pytest.raises(InvalidRequest, match="is a float_list; expected a int64_list"):
        batch([{"x": [1.0]}], DataType.INT64, (-1, 1))


@pytest.mark.parametrize("shape", [(), (-1, -1, -1)])
def test_inputs_that_no_example_can_fill_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequest, match="use Predict"):
        batch([{"x": [1.0]}], DataType.FP32, shape)
