"""Files of numpy are read without believing what they say."""

import io
from typing import Any

import numpy as np
import pytest

from ie_serving.compat.sagemaker.routes import as_input, read_npy, write_csv, write_npy
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec


def npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    written = io.BytesIO()
    np.lib.format.write_array(written, np.asanyarray(array), version)
    return written.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.float32([[1.5, 2], [3, 4]]),
        np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.array(7, np.uint8),
        np.zeros((0, 4), np.float16),
        np.array([True, False]),
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
        b"",
        b"\x93NUMPY",
        b"PK\x03\x04",
        GOOD[:-1],
        GOOD + b"x",
        GOOD.replace(b"(4,)", b"(5,)"),
        # Numpy would ask the system for the memory before it reads.
        GOOD.replace(b"(4,), }", b"(99999999999,99999999999), }"),
        npy(np.zeros((0, 4))).replace(b"4), }" + b" " * 25, b"999999999999, 999999999999), }"),
        GOOD.replace(b"<f4", b"<f9"),
        GOOD.replace(b"'<f4'", b"'|O8'"),
        npy(np.array([b"text"])),
        npy(np.zeros(1, [("a", "f4")])),
        GOOD[:8] + b"\xff\xff" + GOOD[10:],
        GOOD[:6] + b"\x07" + GOOD[7:],
    ],
)
def test_a_body_that_is_no_array_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_npy(body)


def signature(dtype: DataType, *names: str) -> Signature:
    specs = {name: TensorSpec(name, dtype, (-1,), name) for name in names}
    return Signature("s", specs, specs)


def test_the_one_input() -> None:
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
