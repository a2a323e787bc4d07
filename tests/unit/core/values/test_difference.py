"""Floats are compared as numpy compares them; what differs most is shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.difference import deviation, difference, drifts
from ie_serving.core.values.tensors import Array

RTOL, ATOL = 1e-3, 1e-5
NUMBER = st.sampled_from([0.0, 1.0, -1.0, 1e30, np.inf, -np.inf, np.nan, 1.0000001, 1.0011])
PAIRS = st.lists(st.tuples(NUMBER, NUMBER), max_size=8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(PAIRS)
def test_floats_are_compared_as_numpy_compares_them(
    dtype: type[np.floating], pairs: list[tuple[float, float]]
) -> None:
    found, expected = (np.array([pair[i] for pair in pairs], dtype) for i in (0, 1))
    said = difference("y", found, expected, RTOL, ATOL)
    wide = found.astype(np.float64), expected.astype(np.float64)
    assert (said == "") == np.allclose(*wide, RTOL, ATOL, equal_nan=True)


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        pytest.param(
            np.array([1, 2]),
            np.array([1, 3]),
            "1 of 2 values: at [1] it is 2, not 3",
            id="integers",
        ),
        pytest.param(
            np.array([True]),
            np.array([False]),
            "1 of 1 values: at [0] it is True, not False",
            id="booleans",
        ),
        pytest.param(
            np.array([b"a"], object),
            np.array([b"b"], object),
            "at [0] it is b'a', not b'b'",
            id="texts",
        ),
        pytest.param(
            np.float32([1, np.nan]),
            np.float32([2, 1]),
            "2 of 2 values: at [1] it is nan, not 1.0",
            id="NaN",
        ),
        pytest.param(
            np.float32(1),
            np.float32(2),
            "1 of 1 values: at [] it is 1.0, not 2.0, by 1",
            id="scalars",
        ),
        pytest.param(
            np.float32([[5]]), np.float32([5]), 'output "y" has shape [1, 1], not [1]', id="shapes"
        ),
    ],
)
def test_the_value_that_differs_most_is_shown(found: Array, expected: Array, said: str) -> None:
    assert said in difference("y", np.asarray(found), np.asarray(expected), RTOL, ATOL)


@pytest.mark.parametrize(
    ("found", "expected", "share"),
    [
        pytest.param(np.float32([1.0, -4.0]), np.float32([1.0, -4.0]), 0.0, id="the same"),
        pytest.param(np.float32([1.1, -4.0]), np.float32([1.0, -4.0]), 0.025, id="of the largest"),
        pytest.param(np.float32([0.1]), np.float32([0.0]), np.inf, id="of nothing"),
        pytest.param(np.float32([1, np.nan]), np.float32([1, np.nan]), 0.0, id="NaN is NaN"),
        pytest.param(np.float32([1, 2]), np.float32([1, np.nan]), np.inf, id="NaN has vanished"),
        pytest.param(np.float32([1, np.inf]), np.float32([1, 2]), np.inf, id="infinite"),
        pytest.param(np.float32([np.inf]), np.float32([-np.inf]), np.inf, id="the other end"),
        pytest.param(np.float32([[1]]), np.float32([1]), np.inf, id="another shape"),
        pytest.param(np.array([3]), np.array([3]), 0.0, id="the same class"),
        pytest.param(np.array([3]), np.array([4]), np.inf, id="another class"),
        pytest.param(np.array([b"a"], object), np.array([b"b"], object), np.inf, id="a string"),
        pytest.param(np.float32([]), np.float32([]), 0.0, id="nothing"),
    ],
)
def test_a_deviation_is_a_share_of_the_largest_number(
    found: Array, expected: Array, share: float
) -> None:
    assert deviation(found, expected) == pytest.approx(share, rel=1e-5)


def test_answers_drift_by_missing_outputs_other_dtypes_and_numbers() -> None:
    expected = {"y": np.float32([1, 100]), "n": np.array([1, 2]), "gone": np.float32([1])}
    found = {"y": np.float32([1.05, 100]), "n": np.array([1, 3]), "more": np.float32([7])}
    assert drifts(found, expected, 1e-3) == {
        "n": 'output "n" differs in 1 of 2 values: at [1] it is 3, not 2',
        "gone": 'output "gone" is missing',
    }
    # 0.05 of the 1 is little beside the 100 of the same output, but not for a smaller tolerance.
    assert set(drifts(found, expected, 1e-4)) == {"y", "n", "gone"}
    halves = {"y": np.float16([1, 100])}
    (said,) = drifts(halves, {"y": expected["y"]}, 1.0).values()
    assert said == 'output "y" has dtype float16, not float32'


@given(PAIRS, st.sampled_from([0.0, 1e-4, 0.1]))
def test_equal_answers_never_drift(pairs: list[tuple[float, float]], tolerance: float) -> None:
    answer = {"y": np.array([first for first, _ in pairs], np.float32)}
    assert drifts(answer, answer, tolerance) == {}
