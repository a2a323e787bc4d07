"""TensorProto to numpy, with the leniency of TensorFlow and no more."""

from typing import Any

import numpy as np
import pytest

from ie_serving.core.runtime.budget import BUDGET, Budget
from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, QueueFull
from ie_serving.core.values.tensors import DataType
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs import tensor_proto
from ie_serving.wire.tfs.tensor_proto import FillBudget, SplitTensor, decode_tensor
from tests.tables import named_by

NUMERIC = [dtype for dtype in DataType if dtype is not DataType.STRING]


def proto(dtype: DataType | int, shape: tuple[int, ...], **values: Any) -> Any:
    number = dtype.number if isinstance(dtype, DataType) else dtype
    message = messages.TensorProto(dtype=number, **values)
    message.tensor_shape.SetInParent()
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    return message


@pytest.mark.parametrize("dtype", NUMERIC)
def test_a_list_is_read_in_the_numpy_dtype(dtype: DataType) -> None:
    one = {DataType.FP16: 0x3C00, DataType.BF16: 0x3F80}.get(dtype, 1)
    field = tensor_proto.LIST_OF[dtype].name
    array = decode_tensor(proto(dtype, (1, 2), **{field: [0, one]}), "x")
    assert array.dtype == dtype.numpy
    assert array.tolist() == [[0, 1]]


@pytest.mark.parametrize("size", [3, 500], ids=["short", "long"])
def test_long_and_short_lists_are_read_alike(size: int) -> None:
    values = list(range(-1, size - 1))
    array = decode_tensor(proto(DataType.INT64, (size,), int64_val=values), "x")
    assert array.tolist() == values


@pytest.mark.parametrize(
    ("given", "shape", "expected"),
    [
        pytest.param([1, 2], (4,), [1, 2, 2, 2], id="the last value fills up"),
        pytest.param([7], (2, 2), [[7, 7], [7, 7]], id="one value fills the shape"),
        pytest.param([], (3,), [0, 0, 0], id="none are zeros"),
        pytest.param([1, 2, 3], (2,), [1, 2], id="surplus is dropped"),
        pytest.param([5], (), 5, id="no shape is a scalar"),
        pytest.param([5], (0, 3), [], id="a dimension of 0 is empty"),
        pytest.param([], (2, 0), [[], []], id="empty rows"),
    ],
)
def test_elements_that_are_left_out_are_padded(
    given: list[int], shape: tuple[int, ...], expected: object
) -> None:
    for dtype, field in ((DataType.FP32, "float_val"), (DataType.INT32, "int_val")):
        array = decode_tensor(proto(dtype, shape, **{field: given}), "x")
        assert array.shape == shape
        assert array.tolist() == expected


@named_by(
    "dtype",
    ("dtype", "field", "value", "expected"),
    [
        (DataType.INT8, "int_val", 128, -128),
        (DataType.UINT16, "int_val", -2, 65534),
        (DataType.BF16, "half_val", 0xC000, -2.0),
        (DataType.FP16, "half_val", 0x13C00, 1.0),
    ],
)
def test_narrow_numbers_are_the_lowest_bits(
    dtype: DataType, field: str, value: int, expected: float
) -> None:
    """More of what is forgiven: `tests/functional/conformance/cases/grpc_tensors.py`."""
    assert decode_tensor(proto(dtype, (), **{field: [value]}), "x").item() == expected


@pytest.mark.parametrize("dtype", NUMERIC)
def test_tensor_content_is_little_endian_and_row_major(dtype: DataType) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]], dtype.numpy)
    content = array.tobytes()
    if dtype is DataType.BF16:
        content = (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    decoded = decode_tensor(proto(dtype, (2, 3), tensor_content=content), "x")
    assert decoded.dtype == dtype.numpy
    assert decoded.tolist() == array.tolist()


def test_tensor_content_is_not_copied() -> None:
    content = np.arange(6, dtype=np.float32).tobytes()
    tensor = SplitTensor(proto(DataType.FP32, (6,)), memoryview(content), {})
    assert np.shares_memory(decode_tensor(tensor, "x"), np.frombuffer(content, np.uint8))


def test_a_bool_of_any_nonzero_byte_is_true() -> None:
    decoded = decode_tensor(proto(DataType.BOOL, (3,), tensor_content=b"\x00\x02\xff"), "x")
    assert decoded.view(np.uint8).tolist() == [0, 1, 1]


TB = 1 << 40


@pytest.mark.parametrize(
    ("tensor", "cause"),
    [
        pytest.param(proto(0, (1,)), "dtype 0 is not supported", id="DT_INVALID"),
        pytest.param(proto(8, (1,)), "dtype 8 is not supported", id="complex"),
        pytest.param(proto(101, (1,)), "dtype 101 is not supported", id="reference type"),
        pytest.param(proto(DataType.FP32, (-1,)), "negative dimension", id="negative"),
        pytest.param(proto(DataType.FP32, (1,) * 33), "33 dimensions", id="rank"),
        pytest.param(
            proto(DataType.FP32, (2,), tensor_content=b"1234"), "has 4 bytes", id="too few bytes"
        ),
        pytest.param(
            proto(DataType.FP32, (0,), tensor_content=b"1234"), "takes 0", id="bytes for nothing"
        ),
        pytest.param(proto(DataType.UINT8, (TB,)), f"takes {TB} bytes", id="a terabyte of zeros"),
        pytest.param(
            proto(DataType.FP32, (2**62, 2**62), float_val=[1]), "1 values are given", id="overflow"
        ),
        pytest.param(
            proto(DataType.STRING, (TB,), string_val=[b"x"]),
            "1 values are given",
            id="a terabyte of strings",
        ),
        pytest.param(
            proto(DataType.STRING, (TB,), tensor_content=b"\x00"), "does not hold", id="few lengths"
        ),
        pytest.param(
            proto(DataType.STRING, (2,), tensor_content=b"\x01\x01a"), "does not hold", id="cut"
        ),
        pytest.param(
            proto(DataType.STRING, (1,), tensor_content=b"\x01ab"), "does not hold", id="surplus"
        ),
        pytest.param(
            proto(DataType.STRING, (1,), tensor_content=b"\x80"), "does not hold", id="open length"
        ),
    ],
)
def test_refused_before_anything_is_allocated(tensor: Any, cause: str) -> None:
    with pytest.raises(InvalidTensor, match=cause) as caught:
        decode_tensor(tensor, "image")
    assert "tensor parsing error: image" in str(caught.value)


def test_an_unknown_rank_is_refused() -> None:
    tensor = messages.TensorProto(dtype=1)
    tensor.tensor_shape.unknown_rank = True
    with pytest.raises(InvalidTensor, match=r"tensor parsing error: x: .*unknown_rank"):
        decode_tensor(tensor, "x")


def test_an_empty_tensor_of_huge_other_dimensions_is_empty_or_refused() -> None:
    try:
        assert decode_tensor(proto(DataType.FP32, (0, 2**62)), "x").size == 0
    except InvalidRequest as error:
        assert "tensor parsing error: x" in str(error)


def test_the_limit_is_the_callers() -> None:
    tensor = proto(DataType.FP32, (4,), float_val=[1])
    assert decode_tensor(tensor, "x", FillBudget(16)).tolist() == [1, 1, 1, 1]
    with pytest.raises(
        InvalidTensor, match=r"1 values are given .* 15 bytes more may be filled up"
    ):
        decode_tensor(tensor, "x", FillBudget(15))


@pytest.mark.parametrize("dtype", [DataType.FP32, DataType.STRING])
def test_a_few_tensors_are_filled_up_at_a_time(
    dtype: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a few bytes of a message, and the model as long as a large request."""
    count = 1 << 16
    size = count * dtype.numpy.itemsize
    monkeypatch.setattr(tensor_proto, "FILLED", Budget(2 * size))
    held = BUDGET.held
    kept = [decode_tensor(proto(dtype, (count,)), "x") for _ in range(2)]
    with pytest.raises(
        QueueFull, match=rf"at most {2 * size} bytes, and this one takes {size} more"
    ):
        decode_tensor(proto(dtype, (count,)), "x")
    assert (tensor_proto.FILLED.held, BUDGET.held) == (2 * size, held + 2 * size)
    kept.pop()
    assert decode_tensor(proto(dtype, (count,)), "x").shape == (count,)
    kept.clear()
    assert (tensor_proto.FILLED.held, BUDGET.held) == (0, held)
