"""Rows to try a signature with have shapes and values that it takes."""

import pytest

from ie_serving.core.values.image_form import NO_LIMIT, ImageBounds
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Signature, TensorSpec
from ie_serving.engines.layers.joining import candidates, has_open_rows, requests


def taking(dtype: DataType, *shape: int, bounds: ImageBounds | None = None) -> Signature:
    return Signature(SERVING_DEFAULT, {"x": TensorSpec("x", dtype, shape, "x:0", "", bounds)}, {})


@pytest.mark.parametrize(
    ("signature", "shapes"),
    [
        (taking(DataType.FP32, -1, 3), [(5, 3)]),
        (taking(DataType.FP32, -1, -1, 3), [(5, size, 3) for size in (16, 64, 224, 1)]),
        (
            taking(DataType.FP32, -1, -1, 3, bounds=((0, NO_LIMIT), (100, 200), (3, 3))),
            [(5, size, 3) for size in (100, 100, 200, 100)],
        ),
    ],
    ids=["fixed", "open", "a range"],
)
def test_rows_to_try_have_shapes_that_the_signature_takes(
    signature: Signature, shapes: list[tuple[int, ...]]
) -> None:
    assert [each["x"].shape for each in candidates(signature, 5)] == shapes
    assert has_open_rows(signature) == (len(shapes) > 1)


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.UINT8, DataType.BOOL, DataType.STRING])
def test_values_have_the_dtype_and_are_the_same_each_time(dtype: DataType) -> None:
    (first,), (again,) = (list(candidates(taking(dtype, -1, 4), 3)) for _ in range(2))
    assert first["x"].dtype == dtype.numpy
    assert first["x"].tolist() == again["x"].tolist()


@pytest.mark.parametrize(
    ("signature", "shape"),
    [
        pytest.param(taking(DataType.FP32, -1, 3), (1, 3), id="one row"),
        pytest.param(taking(DataType.FP32, 4, 3), (4, 3), id="a fixed batch"),
        pytest.param(taking(DataType.FP32), (), id="a scalar"),
        pytest.param(taking(DataType.FP32, -1, bounds=((2, 8),)), (2,), id="a range"),
        pytest.param(
            Signature("any", {"x": TensorSpec("x", DataType.FP32, None, "x:0")}, {}),
            (1, 16),
            id="any rank",
        ),
    ],
)
def test_a_request_has_one_row_where_the_signature_leaves_it_open(
    signature: Signature, shape: tuple[int, ...]
) -> None:
    assert next(requests(signature))["x"].shape == shape
