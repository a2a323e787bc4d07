"""Casts and sums that the graph leaves out again are no fault of a request; what is read is one."""

from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array
from tests.unit.engines.openvino.faults.integers.graphs import answers, constant, refused, served
from tests.unit.engines.openvino.models import load, run

REALS = np.array([1.5, np.nan, np.inf, -np.inf, 1e12, -1e12, -7.9, 2.0**24 + 2], np.float32)
UNFIT = [False, True, True, True, True, True, False, False]
ZERO = constant(0, np.int64)


def cast(x: Any) -> Any:
    return op.convert(x, "i64")


def is_fit(x: Any) -> Any:
    """Tell NaN and what is beyond 31 bits, as an export's own graph would."""
    return op.less(op.abs(x), constant(2.0**31, np.float32))


def masked(x: Any) -> Any:
    return op.select(is_fit(x), cast(x), ZERO)


def or_else(x: Any) -> Any:
    return op.select(op.logical_not(is_fit(x)), ZERO, cast(x))


def in_turn(x: Any) -> Any:
    """Give `where(is_nan(x), -1, where(is_inf(x), -2, where(|x| < 2**31, cast(x), -3)))`."""
    fit = op.select(is_fit(x), cast(x), constant(-3, np.int64))
    finite = op.select(op.is_inf(x), constant(-2, np.int64), fit)
    return op.select(op.is_nan(x), constant(-1, np.int64), finite)


def behind(x: Any) -> Any:
    """Compute with it in between: what is wrong stays in its place."""
    more = op.multiply(op.add(cast(x), constant(1, np.int64)), constant(2, np.int64))
    return op.select(op.less(op.abs(x), constant(2.0**25, np.float32)), more, ZERO)


def several(x: Any) -> Any:
    """Read it twice, each time with a mask of its own."""
    found = cast(x)
    more = op.select(op.less(op.abs(x), constant(100.0, np.float32)), found, ZERO)
    return op.add(op.select(is_fit(x), found, ZERO), more)


def whole(x: Array, most: float) -> Array:
    """Cut reals to integers, those that are not below `most` to 0."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(x) < most, x, 0).astype(np.int64)


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "open"])
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (masked, whole(REALS, 2.0**31)),
        (or_else, whole(REALS, 2.0**31)),
        (in_turn, np.array([1, -1, -2, -2, -3, -3, -7, 2**24 + 2])),
        (behind, np.where(np.abs(REALS) < 2.0**25, 2 * (whole(REALS, 2.0**25) + 1), 0)),
        (several, whole(REALS, 2.0**31) + whole(REALS, 100)),
    ],
    ids=["where", "where not", "in turn", "behind", "several"],
)
def test_a_value_that_the_graph_leaves_out_is_not_refused(
    build: Any, expected: Array, fixed: bool
) -> None:
    """Before, each of these requests was refused."""
    assert served(build, REALS, fixed=fixed).tolist() == expected.tolist()


def but_chosen(x: Any) -> Any:
    return op.select(is_fit(x), ZERO, cast(x))


def and_summed(x: Any) -> Any:
    found = cast(x)
    total = op.reduce_sum(op.select(is_fit(x), found, ZERO), constant([0]), True)
    return op.add(total, op.reduce_max(found, constant([0]), True))


def and_given(x: Any) -> list[Any]:
    found = cast(x)
    return [op.select(is_fit(x), found, ZERO), found]


def and_decides(x: Any) -> Any:
    found = cast(x)
    return op.select(op.less(found, constant(5, np.int64)), op.select(is_fit(x), found, ZERO), ZERO)


def and_moved(x: Any) -> Any:
    """Leave others out than those that are wrong, which have moved."""
    return op.select(is_fit(x), op.roll(cast(x), constant([1]), constant([0])), ZERO)


@pytest.mark.parametrize("build", [but_chosen, and_summed, and_given, and_decides, and_moved])
def test_whatever_else_reads_it_is_refused(build: Any) -> None:
    _, causes = answers(build, np.array([3.0, np.nan, 4.0, 5.0], np.float32))
    assert len(causes) == 1
    assert "gives numbers that do not fit into 32 bits" in causes[0]
    assert not answers(build, np.array([3.0, -2.0], np.float32))[1]


def test_a_mask_of_another_shape_counts_where_it_chooses() -> None:
    """Rows that are chosen are seen in all columns, and masks of two sizes do not meet."""

    def build(x: Any, rows: Any) -> list[Any]:
        found = cast(x)
        row = op.gather(rows, constant([0]), constant(0))
        by_row = op.select(op.unsqueeze(rows, constant(1)), found, ZERO)
        return [by_row, op.select(row, found, ZERO)]

    x = np.array([7.0, np.nan], np.float32)
    none = np.array([False, False, False])
    outputs, causes = answers(build, x, none)
    assert not causes
    assert [each.tolist() for each in outputs] == [[[0, 0]] * 3, [0, 0]]
    for at in range(3):
        assert answers(build, x, np.arange(3) == at)[1]


def test_sums_that_are_left_out_are_not_refused() -> None:
    def build(a: Any, b: Any) -> Any:
        small = op.less(a, constant(1000, np.int64))
        return op.select(small, op.multiply(a, b), constant(-1, np.int64))

    a, b = np.array([3, 2**30, 999]), np.array([5, 1000, 2**21])
    assert served(build, a, b).tolist() == [15, -1, 999 * 2**21]
    assert refused(build, np.array([999, 2**30]), np.array([2**22, 2])) == [True, False]


def test_a_divisor_of_0_is_refused_although_it_is_left_out() -> None:
    """As TensorFlow does."""

    def build(a: Any, b: Any) -> Any:
        return op.select(op.equal(b, ZERO), ZERO, op.divide(a, b))

    assert refused(build, np.array([4, 4]), np.array([0, 2])) == [True, False]


@given(
    st.lists(
        st.tuples(st.floats(width=32), st.booleans()),
        min_size=1,
        max_size=8,
    )
)
def test_a_request_is_refused_exactly_where_something_wrong_is_chosen(
    rows: list[tuple[float, bool]],
) -> None:
    x = np.array([value for value, _ in rows], np.float32)
    chosen = np.array([is_chosen for _, is_chosen in rows])
    outputs, causes = answers(masked_by, x, chosen)
    with np.errstate(invalid="ignore"):
        fits = (x > -(2.0**31) - 256) & (x < 2.0**31)
        exact = np.where(fits, x, 0).astype(np.int64)
    assert bool(causes) == bool((chosen & ~fits).any())
    if not causes:
        assert outputs[0].tolist() == np.where(chosen, exact, 0).tolist()


def masked_by(x: Any, chosen: Any) -> Any:
    return op.select(chosen, cast(x), ZERO)


async def test_a_savedmodel_answers_as_tensorflow_does(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")

    class Buckets(tf.Module):  # type: ignore[misc,name-defined]
        """What exports do with numbers that may be missing."""

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="a")])
        def serve(self, a: Any) -> Any:
            missing = tf.math.is_nan(a)
            number = tf.where(missing, tf.constant(0, tf.int64), tf.cast(a, tf.int64))
            finite = tf.where(tf.math.is_finite(a), tf.cast(a * 2, tf.int64), -1)
            row = tf.gather(tf.constant([10, 20, 30, 40]), tf.clip_by_value(number, 0, 3))
            return {"number": number, "finite": finite, "row": row}

    module = Buckets()
    tf.saved_model.save(module, str(tmp_path / "1"), signatures={"serving_default": module.serve})
    model = load(tmp_path / "1", inference_precision="f32")
    for given_values in ([1.5, np.nan, -3.9, 2.0], [np.nan], [7.0]):
        a = np.array(given_values, np.float32)
        expected = module.serve(tf.constant(a))
        answer = await run(model, {"a": a})
        assert {name: found.tolist() for name, found in answer.items()} == {
            name: value.numpy().tolist() for name, value in expected.items()
        }
    with pytest.raises(InvalidTensor, match="do not fit into 32 bits"):
        await run(model, {"a": np.array([1.0, 1e12], np.float32)})
