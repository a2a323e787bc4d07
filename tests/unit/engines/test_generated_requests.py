"""Requests that are made up for a model."""

import numpy as np
import pytest

from ie_serving.core.values.tensors import DataType
from ie_serving.engines.generated_requests import (
    GeneratedInput,
    Guess,
    ValueKind,
    guesses,
    requests,
    usual,
)

X = GeneratedInput("x", DataType.FP32, ("n", 4))
IDS = GeneratedInput("ids", DataType.INT64, ("n",))
SCALES = GeneratedInput("scales", DataType.FP32, (4,))


def first(*inputs: GeneratedInput) -> Guess:
    return next(guesses(inputs))


def test_a_model_is_asked_the_same_each_time() -> None:
    for one, other in zip(requests([X], first(X)), requests([X], first(X)), strict=True):
        assert str(one) == str(other)
        np.testing.assert_array_equal(one.inputs["x"], other.inputs["x"])


def test_open_dimensions_of_one_name_are_of_one_size() -> None:
    request = usual([X, IDS], first(X, IDS))
    assert request.inputs["x"].shape == (2, 4)
    assert request.inputs["ids"].shape == (2,)


def test_other_dimensions_are_tried_in_other_sizes_than_the_first() -> None:
    picture = GeneratedInput("x", DataType.FP32, ("n", 3, "h", "w"))
    tried = [usual([picture], guess).inputs["x"].shape for guess in guesses([picture])]
    assert tried[0] == (2, 3, 2, 2)
    assert (2, 3, 64, 64) in tried


def test_of_large_inputs_one_row_comes_first() -> None:
    picture = GeneratedInput("x", DataType.FP32, ("n", 3, 224, 224))
    assert usual([picture], first(picture)).inputs["x"].shape == (1, 3, 224, 224)


def test_an_input_beyond_the_bound_is_never_made() -> None:
    assert not list(guesses([GeneratedInput("x", DataType.FP32, ("n", 1 << 24, 2))]))


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        pytest.param(
            ValueKind.NAN, lambda x: np.isnan(x).any() and not np.isinf(x).any(), id="nan"
        ),
        pytest.param(
            ValueKind.INFINITE, lambda x: np.isinf(x).any() and not np.isnan(x).any(), id="inf"
        ),
        pytest.param(ValueKind.FINITE, lambda x: np.isfinite(x).all(), id="finite"),
        pytest.param(ValueKind.EMPTY, lambda x: x.size == 0, id="empty"),
    ],
)
def test_values_are_what_their_kind_says(kind: ValueKind, holds: object) -> None:
    found = [each.inputs["x"] for each in requests([X], first(X)) if each.kind is kind]
    assert found
    assert callable(holds)
    assert all(holds(each) for each in found)


def test_extreme_integers_stand_beside_usual_ones() -> None:
    found = [each for each in requests([IDS], first(IDS)) if each.kind is ValueKind.EXTREME]
    ends = [each.inputs["ids"].tolist() for each in found]
    info = np.iinfo(np.int64)
    assert [row[0] for row in ends] == [info.max, info.min]
    assert all(0 <= row[1] < 3 for row in ends)


def test_a_row_of_a_few_floats_is_guessed_as_parameters() -> None:
    both = [X, SCALES]
    tried = [usual(both, guess).inputs["scales"].tolist() for guess in guesses(both)]
    assert [1, 1, 2, 2] in tried
    assert [0.5] * 4 in tried


def test_a_row_that_is_the_only_input_is_no_parameter() -> None:
    assert any(each.kind is ValueKind.NAN for each in requests([SCALES], first(SCALES)))


@pytest.mark.parametrize("dtype", DataType)
def test_each_type_has_values(dtype: DataType) -> None:
    each = GeneratedInput("x", dtype, (2, 3))
    for request in requests([each], first(each)):
        assert request.inputs["x"].dtype == dtype.numpy
        assert request.inputs["x"].shape == (2, 3)


def test_numbers_are_arrays_too() -> None:
    """Of scalars of numpy onnxruntime takes none: models with such an input were not compared."""
    dtypes = (DataType.INT64, DataType.BOOL, DataType.FP32, DataType.UINT8, DataType.STRING)
    given = [GeneratedInput(dtype.name, dtype, ()) for dtype in dtypes]
    for request in (usual(given, first(*given)), *requests(given, first(*given))):
        assert {type(each) for each in request.inputs.values()} == {np.ndarray}
