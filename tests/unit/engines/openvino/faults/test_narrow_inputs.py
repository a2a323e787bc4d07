"""Integers that do not fit into 32 bits are refused exactly where OpenVINO would change them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.run.program import CompiledPrograms
from tests.unit.engines.openvino.models import load, ov_type, run, unary

WIDE = pytest.mark.parametrize(
    "dtype", [DataType.INT64, DataType.UINT64, DataType.UINT32], ids=lambda d: d.name
)


def add(dtype: DataType) -> Callable[[Any], Any]:
    return lambda x: op.add(x, op.convert(op.constant(np.int32(1)), ov_type(dtype)))


@WIDE
@pytest.mark.parametrize("at", [0, 2])
async def test_a_value_beyond_is_refused_by_name_and_value(
    tmp_path: Path, dtype: DataType, at: int
) -> None:
    model = load(unary(tmp_path, [3], dtype, add(dtype)))
    values = np.ones(3, dtype.numpy)
    values[at] = 2**31
    with pytest.raises(InvalidTensor, match=f'"x" holds {2**31}'):
        await run(model, {"x": values})


@pytest.mark.parametrize("value", [-(2**31) - 1, 2**40, 2**63 - 1, -(2**63)])
async def test_either_end_of_int64_is_refused(tmp_path: Path, value: int) -> None:
    model = load(unary(tmp_path, [1], DataType.INT64, add(DataType.INT64)))
    with pytest.raises(InvalidTensor, match=str(value)):
        await run(model, {"x": np.array([value], np.int64)})


@WIDE
async def test_the_greatest_that_fits_is_computed(tmp_path: Path, dtype: DataType) -> None:
    model = load(unary(tmp_path, [1], dtype, add(dtype)))
    answer = await run(model, {"x": np.array([2**31 - 2], dtype.numpy)})
    assert answer["y"].tolist() == [2**31 - 1]


@WIDE
async def test_what_is_only_passed_through_keeps_all_bits(tmp_path: Path, dtype: DataType) -> None:
    model = load(unary(tmp_path, [2], dtype, lambda x: x))
    info = np.iinfo(dtype.numpy)
    (answer,) = (await run(model, {"x": np.array([info.max, info.min], dtype.numpy)})).values()
    assert answer.tolist() == [info.max, info.min]


async def test_what_becomes_floating_point_first_is_taken(tmp_path: Path) -> None:
    model = load(unary(tmp_path, [1], DataType.INT64, lambda x: op.convert(x, "f32")))
    assert (await run(model, {"x": np.array([2**40], np.int64)}))["y"].tolist() == [2.0**40]


async def test_no_values_are_fine(tmp_path: Path) -> None:
    model = load(unary(tmp_path, [-1], DataType.INT64, add(DataType.INT64)))
    assert (await run(model, {"x": np.zeros(0, np.int64)}))["y"].shape == (0,)


@pytest.mark.parametrize("value", [1e300, -1e39])
@pytest.mark.parametrize(
    "body",
    [lambda x: op.add(x, op.constant(np.float64(1))), lambda x: op.convert(x, "f32")],
    ids=["added to", "made a float"],
)
async def test_a_double_beyond_float_is_refused(
    tmp_path: Path, body: Callable[[Any], Any], value: float
) -> None:
    """The plugin would compute with the largest float instead."""
    model = load(unary(tmp_path, [2], DataType.FP64, body))
    with pytest.raises(InvalidTensor, match="computes double in 32 bits"):
        await run(model, {"x": np.array([1.0, value])})
    (answer,) = (await run(model, {"x": np.array([1.5, np.nan])})).values()
    assert np.isnan(answer[1])


async def test_a_double_that_is_only_passed_through_is_taken(tmp_path: Path) -> None:
    model = load(unary(tmp_path, [2], DataType.FP64, lambda x: x))
    (answer,) = (await run(model, {"x": np.array([1e300, np.inf])})).values()
    assert answer.tolist() == [1e300, np.inf]


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledPrograms]:
    bodies: dict[str, Callable[[Any], Any]] = {
        "reshape": lambda x: op.reshape(x, op.constant(np.array([1, 2])), False),
        "concat": lambda x: op.concat([x, x], 0),
        "to i32 and back": lambda x: op.convert(op.convert(x, "i32"), "i64"),
        "slice": lambda x: op.slice(x, *(op.constant(np.array([v])) for v in (0, 2, 1))),
        "pass": lambda x: x,
    }
    made = {}
    for name, body in bodies.items():
        directory = unary(tmp_path_factory.mktemp("model"), [2], DataType.INT64, body)
        made[name] = load(directory, execution="inline")
    return made


@given(
    name=st.sampled_from(["reshape", "concat", "to i32 and back", "slice", "pass"]),
    values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2),
)
def test_an_answer_is_never_wrong(
    name: str, values: list[int], layers: dict[str, CompiledPrograms]
) -> None:
    """These layers move values about: each that comes out went in."""
    try:
        answer = asyncio.run(run(layers[name], {"x": np.array(values, np.int64)}))
    except InvalidTensor:
        return
    (array,) = answer.values()
    assert set(array.flat) == set(values)
