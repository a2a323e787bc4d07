"""Arrays from simdjson's buffers: which are taken, and that nothing else of the process changes."""

import gc
import sys
import threading
import warnings

import numpy as np
import pytest

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.json.buffers import KEPT_BODY, parse_strictly, read_array, read_arrays
from tests.process import output_of
from tests.tables import named_by


def read(text: str, dtype: DataType) -> Array | None:
    body = text.encode()
    return read_array(parse_strictly(body), dtype, body)


@named_by(
    "text",
    ("text", "dtype", "shape"),
    [
        ("[1.5, 2]", DataType.FP32, (2,)),
        ("[[1.5, 2]]", DataType.FP32, (1, 2)),
        ("[[1], [2]]", DataType.INT8, (2, 1)),
        ("[[[1, 2]], [[3, 4]]]", DataType.UINT64, (2, 1, 2)),
        ("[]", DataType.FP64, (0,)),
        ("[[], []]", DataType.FP16, (2, 0)),
        ("[" * 32 + "1" + "]" * 32, DataType.FP32, (1,) * 32),
    ],
)
def test_an_array_that_fits_is_taken(text: str, dtype: DataType, shape: tuple[int, ...]) -> None:
    array = read(text, dtype)
    assert array is not None
    assert (array.dtype, array.shape) == (dtype.numpy, shape)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        pytest.param("[[1, 2], [3]]", DataType.FP32, id="ragged"),
        pytest.param("[[1, 2], 3]", DataType.FP32, id="a number beside a list"),
        pytest.param("[[1, [2]], [3, 4]]", DataType.FP32, id="a list beside a number"),
        pytest.param("[1, null]", DataType.FP32, id="null"),
        pytest.param('[1, "["]', DataType.FP32, id="a string"),
        pytest.param("[true]", DataType.FP32, id="a boolean"),
        pytest.param("[1.0]", DataType.INT32, id="a float for an integer"),
        pytest.param("[300]", DataType.UINT8, id="an integer out of range"),
        pytest.param("[1, 2147483648]", DataType.INT32, id="one beyond the largest"),
        pytest.param("[1, -2147483649]", DataType.INT32, id="one below the smallest"),
        pytest.param("[-1]", DataType.UINT32, id="a negative number for a shorter unsigned one"),
        pytest.param(f"[{'1,' * 5000} 300]", DataType.UINT8, id="out of range among many"),
        pytest.param("[-1]", DataType.UINT64, id="a negative number for an unsigned one"),
        pytest.param("[true]", DataType.BOOL, id="a dtype that is no number"),
        pytest.param("[" * 33 + "1" + "]" * 33, DataType.FP32, id="more dimensions than numpy has"),
        pytest.param("1", DataType.FP32, id="no array"),
    ],
)
def test_an_array_that_does_not_fit_is_left_to_the_next_reader(text: str, dtype: DataType) -> None:
    assert read(text, dtype) is None


def test_brackets_elsewhere_in_the_body_are_left_to_the_next_reader() -> None:
    body = b'{"note": "[", "a": [1], "b": [[2]]}'
    document = parse_strictly(body)
    values = {"a": document["a"], "b": document["b"]}
    assert read_arrays(values, {"a": DataType.FP32, "b": DataType.FP32}, body) is None


@pytest.mark.parametrize("count", [1, 5_000])
@pytest.mark.parametrize(("dtype", "large"), [(DataType.FP32, 1e39), (DataType.FP16, 65520.0)])
def test_a_number_that_is_too_large_is_infinite_without_a_warning(
    count: int, dtype: DataType, large: float
) -> None:
    text = ",".join(["0.5", repr(large), repr(-large), "1e200"] * count)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = read(f"[{text}]", dtype)
    assert array is not None
    assert array[:4].tolist() == [0.5, np.inf, -np.inf, np.inf]


@pytest.mark.parametrize("dtype", [DataType.FP32, DataType.FP16])
def test_the_largest_finite_number_stays_finite(dtype: DataType) -> None:
    largest = float(np.finfo(dtype.numpy).max)
    array = read(f"[{largest!r}]", dtype)
    assert array is not None
    assert array.tolist() == [largest]


def test_arrays_outlive_the_parser_s_next_document() -> None:
    first = read("[1, 2]", DataType.FP64)
    gc.collect()
    read("[3, 4]", DataType.FP64)
    assert first is not None
    assert first.tolist() == [1, 2]


KEPT = """
import ctypes, re, threading
from pathlib import Path
from ie_serving.core.runtime.heaps import HEAPS
from ie_serving.wire.json.buffers import parse_strictly

def resident():
    ctypes.CDLL(None).malloc_trim(0)
    return int(re.findall(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[0]) // 1024

def read():
    assert list(parse_strictly(b"[1]")) == [1]
    assert parse_strictly(refused) is None
    done.wait()
    over.wait()

HEAPS.keep()
refused = b"[" + b"[NaN]," * 1_000_000 + b"1]"
done, over = threading.Barrier(9), threading.Event()
before = resident()
threads = [threading.Thread(target=read) for _ in range(8)]
for each in threads:
    each.start()
done.wait(60)
print(resident() - before)
over.set()
"""


def test_a_thread_keeps_nothing_of_a_large_body_that_is_refused() -> None:
    """Each kept four times the body: what NaN cost stayed, thread after thread."""
    assert int(output_of(sys.executable, "-c", KEPT)[-1]) < 50  # MB; before, 200


def test_threads_do_not_share_a_parser() -> None:
    """Each holds its document while the other parses."""
    both = threading.Barrier(2, timeout=30)
    got: dict[int, list[int]] = {}

    def work(number: int) -> None:
        document = parse_strictly(b"[%d]" % number)
        both.wait()
        got[number] = document.as_list()

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert got == {1: [1], 2: [2]}


def test_a_body_beyond_what_a_thread_keeps_is_read() -> None:
    values = read(f"[{','.join(['1.5'] * (KEPT_BODY // 4 + 1))}]", DataType.FP32)
    assert values is not None
    assert values.size == KEPT_BODY // 4 + 1
    assert read("[1]", DataType.FP32) is not None
