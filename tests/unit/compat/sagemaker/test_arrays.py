"""Files of numpy are read without believing what they say."""

import io
from typing import Any

import numpy as np
import pytest

from ie_serving.compat.sagemaker.arrays import as_input, read_npy, write_csv, write_npy
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec


def npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    written = io.BytesIO()
    np.lib.format.write_array(written, np.asanyarray(array), version)
    return written.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(np.float32([[1.5, 2], [3, 4]]), id="rows"),
        pytest.param(
            np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)), id="in Fortran's order"
        ),
        pytest.param(np.arange(3, dtype=">i4"), id="big endian"),
        pytest.param(np.array(7, np.uint8), id="a scalar"),
        pytest.param(np.zeros((0, 4), np.float16), id="no rows"),
        pytest.param(np.array([True, False]), id="booleans"),
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_an_array_that_numpy_writes_is_read(array: Array, version: tuple[int, int]) -> None:
    found = read_npy(npy(array, version))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.shape == array.shape


GOOD = npy(np.arange(4, dtype=np.float32))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x93NUMPY", id="the magic alone"),
        pytest.param(b"PK\x03\x04", id="a zip"),
        pytest.param(GOOD[:-1], id="a byte too few"),
        pytest.param(GOOD + b"x", id="a byte too many"),
        pytest.param(GOOD.replace(b"(4,)", b"(5,)"), id="a larger shape"),
        # Numpy would ask the system for the memory before it reads.
        pytest.param(GOOD.replace(b"(4,), }", b"(99999999999,99999999999), }"), id="a huge shape"),
        pytest.param(
            npy(np.zeros((0, 4))).replace(b"4), }" + b" " * 25, b"999999999999, 999999999999), }"),
            id="a huge shape without elements",
        ),
        pytest.param(GOOD.replace(b"<f4", b"<f9"), id="another type"),
        pytest.param(GOOD.replace(b"'<f4'", b"'|O8'"), id="objects"),
        pytest.param(npy(np.array([b"text"])), id="texts"),
        pytest.param(npy(np.zeros(1, [("a", "f4")])), id="records"),
        pytest.param(GOOD[:8] + b"\xff\xff" + GOOD[10:], id="another length of the head"),
        pytest.param(GOOD[:6] + b"\x07" + GOOD[7:], id="another version of the format"),
    ],
)
def test_a_body_that_is_no_array_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_npy(body)


def signature(dtype: DataType, *names: str) -> Signature:
    specs = {name: TensorSpec(name, dtype, (-1,), name) for name in names}
    return Signature("s", specs, specs)


def test_an_array_is_the_one_input_in_its_type() -> None:
    found = as_input(np.arange(2), signature(DataType.FP32, "x"))
    assert found["x"].dtype == np.float32
    for array, taken in ((np.float64([0.5]), DataType.INT32), (np.arange(2), DataType.STRING)):
        with pytest.raises(InvalidRequest, match='input "x" is'):
            as_input(array, signature(taken, "x"))
    for large in (np.array([1 << 40]), np.array([1 << 63], np.uint64)):
        with pytest.raises(InvalidRequest, match="numbers beyond it"):
            as_input(large, signature(DataType.INT32, "x"))
    assert as_input(np.array([-7]), signature(DataType.INT32, "x"))["x"].tolist() == [-7]
    for names in ((), ("x", "y")):
        with pytest.raises(InvalidRequest, match="for one input"):
            as_input(np.arange(2), signature(DataType.FP32, *names))


def test_outputs_are_written_as_npy_or_csv() -> None:
    array = np.float32([[1, 2.5], [3, 4]])
    np.testing.assert_array_equal(np.load(io.BytesIO(write_npy({"y": array}))), array)
    assert write_csv({"y": array}) == b"1.0,2.5\n3.0,4.0\n"
    assert write_csv({"y": np.array(3)}) == b"3\n"
    assert write_csv({"y": np.zeros((0, 4))}) == b""
    texts = np.array([b'a "b"', b"c"], object)
    assert write_csv({"y": texts}) == b'"a ""b"""\n"c"\n'
    with pytest.raises(InvalidRequest, match="ask for JSON"):
        write_npy({"y": texts})
    with pytest.raises(InvalidRequest, match="one output"):
        write_csv({"y": array, "z": array})
