"""The classes of an output, as texts."""

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import DataType, TensorSpec
from ie_serving.wire.kserve.classes import classified

ROWS = TensorSpec("y", DataType.FP32, (-1, 3), "y")
WHOLE = TensorSpec("y", DataType.FP32, (1, 3), "y")


@pytest.mark.parametrize(
    ("spec", "values", "most", "labels", "texts"),
    [
        pytest.param(
            ROWS, [[1.0, 3.0, 2.0]], 2, (), [["3.000000:1", "2.000000:2"]], id="the two highest"
        ),
        pytest.param(
            ROWS,
            [[1.0, 1.0, 2.0]],
            3,
            ("a", "b"),
            [["2.000000:2", "1.000000:0:a", "1.000000:1:b"]],
            id="labels",
        ),
        pytest.param(
            ROWS,
            [[np.nan, -np.inf, 0.5]],
            9,
            (),
            [["0.500000:2", "-inf:1", "nan:0"]],
            id="NaN and infinity",
        ),
        pytest.param(ROWS, np.zeros((0, 3)), 2, (), np.zeros((0, 2)).tolist(), id="no rows"),
        pytest.param(WHOLE, [[1.0, 3.0, 2.0]], 1, (), ["3.000000:1"], id="a whole tensor"),
        pytest.param(ROWS, 4.0, 2, (), ["4.000000:0"], id="a scalar"),  # a scalar sent for rows
    ],
)
def test_the_highest_come_first(
    spec: TensorSpec, values: object, most: int, labels: tuple[str, ...], texts: object
) -> None:
    told, found = classified(spec, np.array(values, np.float32), most, labels)
    assert told.dtype is DataType.STRING
    assert (
        np.vectorize(bytes.decode, otypes=[object])(found).tolist() == texts
        if found.size
        else (found.tolist() == texts)
    )


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_whole_numbers_are_whole(dtype: type[np.generic]) -> None:
    limits = np.iinfo(dtype)
    array = np.array([limits.min, 0, limits.max], dtype)
    _, found = classified(TensorSpec("y", DataType.INT64, (3,), "y"), array, 1, ())
    assert found.tolist() == [f"{limits.max}:2".encode()]


def test_texts_have_no_classes() -> None:
    with pytest.raises(InvalidRequest, match='output "y" has no classes'):
        classified(TensorSpec("y", DataType.STRING, (-1,), "y"), np.array([b"a"], object), 1, ())
