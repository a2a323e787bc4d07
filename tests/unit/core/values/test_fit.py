"""Do arrays fit a signature: names, dtypes, shapes, and casts that lose nothing but rounding."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.fit import cast, cast_all, exact, fit, fits, have_dtypes, shed
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from tests.tables import named_by


def signature(**inputs: tuple[DataType, tuple[int, ...] | None]) -> Signature:
    specs = {n: TensorSpec(n, dtype, shape, f"{n}:0") for n, (dtype, shape) in inputs.items()}
    return Signature("serving_default", specs, {})


X = signature(x=(DataType.FP32, (-1, 3)))


def test_inputs_that_fit_are_passed_on_as_they_are() -> None:
    inputs = {"x": np.zeros((2, 3), np.float32)}
    fitted, added = fit(X, inputs)
    assert fitted is inputs
    assert added == 0


def test_a_tensor_that_is_the_servers_own_says_nothing_of_the_outputs() -> None:
    """A control may be a scalar, and outputs keep their trailing dimensions of size 1."""
    own = TensorSpec("control", DataType.UINT32, (1,), "control", apart=True)
    both = Signature("serving_default", {**X.inputs, "control": own}, {})
    fitted, added = fit(both, {"x": np.zeros((2, 3)), "control": np.array(1, np.uint32)})
    assert (fitted["control"].shape, added) == ((1,), 0)
    with pytest.raises(InvalidTensor, match="required shape"):
        fit(both, {"x": np.zeros((2, 3)), "control": np.zeros((2, 1), np.uint32)})


def test_casting_alone_leaves_shapes_to_fit() -> None:
    sent = {"x": np.zeros((2, 3, 1))}
    assert not have_dtypes(X, sent)
    cast_only = cast_all(X, sent)
    assert have_dtypes(X, cast_only)
    assert cast_only["x"].shape == (2, 3, 1)


def test_casting_alone_refuses_what_fit_refuses() -> None:
    for inputs in ({}, {"x": np.zeros(3, np.bool_)}, {"x": np.zeros(3), "y": np.zeros(3)}):
        assert not have_dtypes(X, inputs)
        with pytest.raises(InvalidRequest) as first:
            fit(X, inputs)
        with pytest.raises(type(first.value)) as second:
            cast_all(X, inputs)
        assert str(second.value) == str(first.value)


@pytest.mark.parametrize(
    ("inputs", "phrases"),
    [
        ({}, ["0!=1 len({}) != len({x})", "Missing but required: {x}"]),
        ({"y": 1}, ["Sent extra: {y}", "Missing but required: {x}", '"x" float (-1, 3)']),
        ({"x": 1, "y": 1}, ["2!=1", "Sent extra: {y}", "Missing but required: {}"]),
    ],
)
def test_every_wrong_name_is_in_one_error(inputs: dict[str, Any], phrases: list[str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        fit(X, inputs)
    for phrase in ["input size does not match signature", *phrases]:
        assert phrase in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "shape", "phrase"),
    [
        pytest.param(
            (-1, 3), (2, 4), "Obtained shape [2, 4], required shape [-1, 3]", id="fewer columns"
        ),
        pytest.param(
            (-1, 3), (3,), "Obtained shape [3], required shape [-1, 3]", id="fewer dimensions"
        ),
        pytest.param(
            (5, 3), (2, 3), "Obtained batch size 2, required batch size 5", id="another batch"
        ),
        pytest.param((-1, 3), (1, 2, 3), "Obtained shape [1, 2, 3]", id="more dimensions"),
        pytest.param((), (1,), "required shape []", id="a scalar"),
    ],
)
def test_a_shape_that_does_not_fit(
    spec: tuple[int, ...], shape: tuple[int, ...], phrase: str
) -> None:
    with pytest.raises(InvalidTensor) as refused:
        fit(signature(x=(DataType.FP32, spec)), {"x": np.zeros(shape, np.float32)})
    assert phrase in str(refused.value)


@pytest.mark.parametrize(("shape", "added"), [((3,), 1), ((), 2), ((3, 1), 0)])
def test_missing_trailing_ones_are_added_and_shed(shape: tuple[int, ...], added: int) -> None:
    given_array = np.ones(shape, np.float32)
    fitted, got = fit(signature(x=(DataType.FP32, (-1, 1))), {"x": given_array})
    assert got == added
    assert fitted["x"].ndim == 2
    if added:
        assert shed({"y": fitted["x"]}, added)["y"].shape == shape


def test_a_scalar_fits_whatever_takes_one_value() -> None:
    fitted, added = fit(signature(x=(DataType.FP32, (-1, -1))), {"x": np.ones((), np.float32)})
    assert (fitted["x"].shape, added) == ((1, 1), 2)


@pytest.mark.parametrize("spec", [(-1, -1, -1, -1), (-1, -1, -1, 5), (3, 5, 5, -1)], ids=str)
def test_a_dimension_of_any_size_is_never_guessed(spec: tuple[int, ...]) -> None:
    """An image without its batch would be three images of 5 by 5 pixels with one channel each."""
    with pytest.raises(InvalidTensor, match=r"Obtained shape \[3, 5, 5\]"):
        fit(signature(x=(DataType.FP32, spec)), {"x": np.zeros((3, 5, 5), np.float32)})


def test_any_shape_fits_an_open_rank() -> None:
    array = np.zeros((1, 2, 3), np.float32)
    assert fit(signature(x=(DataType.FP32, None)), {"x": array})[0]["x"] is array


KINDS = {
    DataType.FP32: "fiu",
    DataType.FP64: "fiu",
    DataType.FP16: "fiu",
    DataType.BF16: "fiu",
    DataType.BOOL: "b",
    DataType.STRING: "O",
}


@pytest.mark.parametrize("wanted", DataType)
@pytest.mark.parametrize("sent", [d for d in DataType if d is not DataType.BF16])
def test_kinds_of_numbers_go_together_where_no_value_is_lost(
    sent: DataType, wanted: DataType
) -> None:
    array = np.array([b"1"], object) if sent is DataType.STRING else np.ones(1, sent.numpy)
    spec = TensorSpec("x", wanted, (-1,), "x:0")
    fits = sent.numpy.kind in KINDS.get(wanted, "iu")
    try:
        result = fit(Signature("s", {"x": spec}, {}), {"x": array})[0]["x"]
    except InvalidTensor as error:
        assert not fits
        assert f"Expects arg[0] to be {wanted.word} but {sent.word} is provided" in str(error)
    else:
        assert fits
        assert result.dtype == wanted.numpy


@named_by(
    "wanted",
    ("value", "wanted"),
    [
        (np.array([1e300]), DataType.FP32),
        (np.array([1e6]), DataType.FP16),
        (np.array([300]), DataType.UINT8),
        (np.array([-1]), DataType.UINT64),
        (np.array([2**63], np.uint64), DataType.INT64),
    ],
)
def test_a_value_that_would_not_survive_is_refused(value: Any, wanted: DataType) -> None:
    with pytest.raises(InvalidTensor, match=f"outside the range of {wanted.word}"):
        cast(value, TensorSpec("x", wanted, None, "x:0"), 0)


INTEGERS = [d for d in DataType if d.numpy.kind in "iu"]


@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_integers_keep_their_values_or_are_refused(
    data: st.DataObject, sent: DataType, wanted: DataType
) -> None:
    array = data.draw(hnp.arrays(sent.numpy, hnp.array_shapes(min_dims=0, max_side=3)))
    spec = TensorSpec("x", wanted, None, "x:0")
    bounds = np.iinfo(wanted.numpy)
    fits = not array.size or (int(array.min()) >= bounds.min and int(array.max()) <= bounds.max)
    try:
        result = cast(array, spec, 0)
    except InvalidTensor:
        assert not fits
    else:
        assert fits
        assert result.tolist() == array.tolist()


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_side=3)))
def test_doubles_are_rounded_nan_and_infinity_included(array: Any) -> None:
    try:
        result = cast(array, TensorSpec("x", DataType.FP32, None, "x:0"), 0)
    except InvalidTensor:
        assert (np.abs(array[np.isfinite(array)]) > np.finfo(np.float32).max / 2).any()
    else:
        np.testing.assert_array_equal(result, array.astype(np.float32))


@pytest.mark.parametrize("shape", [(), (-1,), (2,), (-1, 3), (2, 3), (-1, 1), (-1, 2, 3)], ids=str)
@given(array=hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, max_side=3)))
def test_inputs_that_are_seen_to_fit_fit_as_they_are(shape: tuple[int, ...], array: Any) -> None:
    only = signature(x=(DataType.FP32, shape))
    known = exact(only)
    assert known is not None
    inputs, got = {"x": array}, array.shape
    if fits(inputs, known):
        assert fit(only, inputs) == (inputs, 0)
    else:
        assert got != shape
        assert not got or shape[:1] != (-1,) or got[1:] != shape[1:]


PLAIN = exact(signature(x=(DataType.FP32, (-1, 3))))


@pytest.mark.parametrize(
    ("inputs", "fit_as_they_are"),
    [
        ({"x": np.ones((2, 3), np.float32)}, True),
        ({"x": np.ones((2, 3), np.float64)}, False),
        ({"x": [[1.0, 2.0, 3.0]]}, False),
        ({}, False),
    ],
    ids=["as they are", "another dtype", "lists", "none"],
)
def test_inputs_that_need_a_look_are_not_seen_to_fit(inputs: Any, fit_as_they_are: bool) -> None:
    assert PLAIN is not None
    assert fits(inputs, PLAIN) is fit_as_they_are


@pytest.mark.parametrize("shape", [None, (-1, -1), (2, -1)])
def test_other_shapes_are_not_seen_to_fit(shape: tuple[int, ...] | None) -> None:
    assert exact(signature(x=(DataType.FP32, shape))) is None


def test_names_that_change_nothing_may_be_given_or_not() -> None:
    ignoring = replace(X, ignored=frozenset({"like"}))
    inputs = {"x": np.zeros((2, 3), np.float32)}
    for more in ({}, {"like": np.ones(1)}):
        assert fit(ignoring, {**inputs, **more})[0].keys() == {"x"}
    with pytest.raises(InvalidRequest, match=r"Sent extra: \{other\}"):
        fit(ignoring, {**inputs, "other": np.ones(1)})
