"""What an answer to a test of a suite is worth."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.suites.judging import Kind, Tolerance, differs, judge

SUITE = Tolerance(rtol=1e-3, atol=1e-7)
JSON = Tolerance(rtol=1e-3, atol=1e-7, typed=False)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("got", "right"),
    [
        pytest.param(floats(1.0009), floats(1), id="within the share"),
        pytest.param(floats(np.nan, np.inf), floats(np.nan, np.inf), id="not a number, infinite"),
        pytest.param(floats(1e-4, 450), floats(0, 450), id="a rounding of the largest"),
        pytest.param(floats(3e38, np.inf), floats(3e38, np.inf), id="infinity is not the largest"),
        pytest.param(
            np.array([1.01], ml_dtypes.bfloat16), np.array([1], ml_dtypes.bfloat16), id="bfloat16"
        ),
        pytest.param(
            np.array([2**64 - 1], np.uint64), np.array([2**64 - 1], np.uint64), id="uint64"
        ),
        pytest.param(np.array(["a"], object), np.array(["a"], object), id="text"),
        pytest.param(np.array(True), np.array(True), id="a scalar"),
        pytest.param(np.zeros((0, 3)), np.zeros((0, 3)), id="empty"),
    ],
)
def test_equal_within_the_tolerance(got: Any, right: Any) -> None:
    assert differs(got, right, SUITE) == ""


@pytest.mark.parametrize(
    ("got", "right", "text"),
    [
        pytest.param(
            floats(1, 1.5),
            floats(1, 1),
            "1 of 2 differ, from element 1: got [1.5], expected [1]",
            id="one of two elements",
        ),
        pytest.param(
            floats(np.nan),
            floats(0),
            "1 of 1 differ, from element 0: got [nan], expected [0]",
            id="NaN",
        ),
        pytest.param(
            floats(3e38),
            floats(np.inf),
            "1 of 1 differ, from element 0: got [3e+38], expected [inf]",
            id="infinity",
        ),
        pytest.param(
            np.uint8([5]),
            np.uint8([6]),
            "1 of 1 differ, from element 0: got [5], expected [6]",
            id="bytes",
        ),
        pytest.param(
            np.int64([-(2**63)]),
            np.int64([2**63 - 1]),
            "1 of 1 differ, from element 0: got",
            id="the ends of int64",
        ),
        pytest.param(
            np.array(["a"], object),
            np.array(["b"], object),
            "1 of 1 differ, from element 0: got",
            id="texts",
        ),
        pytest.param(
            floats(1), np.float64([1]), "type float32, expected float64", id="another dtype"
        ),
        pytest.param(
            floats(1), floats(1).reshape(1, 1), "shape (1,), expected (1, 1)", id="another shape"
        ),
    ],
)
def test_a_difference_is_told(got: Any, right: Any, text: str) -> None:
    assert differs(got, right, SUITE).startswith(text)


def test_json_has_no_types_and_no_shapes_without_elements() -> None:
    assert differs(np.float64([1]), floats(1), JSON) == ""
    assert differs(np.zeros((2, 0)), np.zeros((2, 0, 3)), JSON) == ""
    assert differs(np.zeros((1, 2)), np.zeros(2), JSON) == "shape (1, 2), expected (2,)"


@pytest.mark.parametrize(
    ("got", "kind"),
    [
        pytest.param({"y": floats(1)}, Kind.RIGHT, id="the same"),
        pytest.param({"y": floats(1), "z": floats(1)}, Kind.RIGHT, id="one output more"),
        pytest.param({"y": floats(2)}, Kind.WRONG, id="another value"),
        pytest.param({"z": floats(1)}, Kind.REFUSED, id="another output"),
    ],
)
def test_an_answer_is_judged_by_the_outputs_that_are_expected(got: Any, kind: Kind) -> None:
    assert judge(got, {"y": floats(1)}, SUITE).kind is kind


def test_of_an_ill_posed_test_types_and_shapes_are_compared() -> None:
    random = Tolerance(1e-3, 1e-7, ill_posed="random")
    assert judge({"y": floats(2)}, {"y": floats(1)}, random).kind is Kind.ILL_POSED
    assert judge({"y": floats(2, 2)}, {"y": floats(1)}, random).kind is Kind.WRONG
