"""Integers of few bits, products of quantized models, and what else reads magnitudes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset16 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.openvino.faults import quantization
from ie_serving.engines.openvino.faults.fusions import part_absolutes
from ie_serving.engines.openvino.graphs.constants import float32
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.run.program import CompiledPrograms
from tests.unit.engines.openvino.models import load, ov_type, parameter, result, run, save, unary

# Integers that do not fit into 32 bits are refused exactly where OpenVINO would change them.

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
async def test_a_number_that_is_only_passed_through_keeps_all_bits(
    tmp_path: Path, dtype: DataType
) -> None:
    model = load(unary(tmp_path, [2], dtype, lambda x: x))
    info = np.iinfo(dtype.numpy)
    (answer,) = (await run(model, {"x": np.array([info.max, info.min], dtype.numpy)})).values()
    assert answer.tolist() == [info.max, info.min]


async def test_a_number_that_becomes_floating_point_first_is_taken(tmp_path: Path) -> None:
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


# Products of quantized models are right on CPUs that add them up in 16 bits, too.

ROWS, SIZE, OUT = 3, 96, 24


def named_input(name: str, *shape: int) -> ov.Node:
    node = op.parameter([*shape], np.float32, name)
    node.output(0).set_names({name})
    return node


def quantized(node: object, low: float, high: float, levels: int = 256) -> ov.Node:
    ends = (float32(low), float32(high))
    return op.fake_quantize(node, *ends, *ends, levels)


def weights(largest: int, shape: tuple[int, ...] = (SIZE, OUT)) -> Array:
    values = np.random.default_rng(largest).integers(1, largest + 1, shape)
    values.flat[0] = largest
    return values.astype(np.int8)


def constant(values: Array) -> ov.Node:
    """As a converter of 8 bits writes them."""
    return op.multiply(op.convert(op.constant(values), "f32"), float32(1.0))


def quantized_constant(values: Array) -> ov.Node:
    """As a training tool writes them."""
    return quantized(op.constant(values.astype(np.float32)), -127, 127, 255)


def uneven_constant(values: Array) -> ov.Node:
    """In a range that lies around other numbers than 0."""
    return quantized(op.constant(values.astype(np.float32)), -200, 55)


def reshaped(node: ov.Node) -> ov.Node:
    return op.reshape(node, op.constant([64, 8]), special_zero=False)


def of(tmp_path: Path, second: ov.Node) -> Path:
    x = named_input("x", ROWS, SIZE)
    y = op.matmul(quantized(x, 0, 255), second, False, False)
    return save(tmp_path / "1", [result("y", y)], [x])


def inputs() -> Array:
    x = np.random.default_rng(7).integers(0, 256, (ROWS, SIZE)).astype(np.float32)
    x[0] = 255
    return x


@pytest.mark.parametrize("second", [constant, quantized_constant, uneven_constant])
@pytest.mark.parametrize("largest", [40, 64, 65, 127])
async def test_sums_of_products_are_right(tmp_path: Path, largest: int, second: object) -> None:
    values = weights(largest)
    model = load(of(tmp_path, second(values)))  # type: ignore[operator]
    answer = await run(model, {"x": inputs()})
    right = np.clip(values.astype(np.float32), None, 55 if second is uneven_constant else None)
    np.testing.assert_allclose(answer["y"], inputs() @ right, rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "second"),
    [
        ((64, 8), lambda z: quantized(z, -128, 127)),
        ((8, 64), lambda z: op.transpose(quantized(z, -127, 127, 255), op.constant([1, 0]))),
        ((8, 64), lambda z: op.relu(reshaped(quantized(z, -127, 127, 255)))),
    ],
    ids=["as they are", "transposed", "reshaped"],
)
async def test_two_inputs_of_8_bits_are_multiplied_right(
    tmp_path: Path, shape: tuple[int, int], second: Any
) -> None:
    """Also if one is moved before."""
    x, z = named_input("x", 2, 64), named_input("z", *shape)
    y = op.matmul(quantized(x, 0, 255), second(z), False, False)
    answer = await run(
        load(save(tmp_path / "1", [result("y", y)], [x, z])),
        {"x": np.full((2, 64), 255, np.float32), "z": np.full(shape, 127, np.float32)},
    )
    np.testing.assert_allclose(answer["y"], 64 * 255 * 127, rtol=1e-4)


@pytest.mark.parametrize(
    ("second", "largest", "unsafe"),
    [
        pytest.param(constant, 64, False, id="64"),
        pytest.param(constant, 65, True, id="65"),
        pytest.param(quantized_constant, 64, False, id="64, quantized"),
        pytest.param(quantized_constant, 66, True, id="66, quantized"),
    ],
)
def test_weights_that_fit_stay_in_8_bits(
    tmp_path: Path,
    second: object,
    largest: int,
    unsafe: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quantization, "saturates", lambda: True)
    file = of(tmp_path, second(weights(largest))) / "model.xml"  # type: ignore[operator]
    model = ov.Core().read_model(file)
    found = quantization.properties_for(model, OpenVinoOptions())
    assert found == (quantization.IN_FLOATS if unsafe else {})
    assert quantization.properties_for(model, OpenVinoOptions(integers="fast")) == {}
    monkeypatch.setattr(quantization, "saturates", lambda: False)
    assert quantization.properties_for(model, OpenVinoOptions()) == {}


def test_models_of_floats_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> bool:
        raise AssertionError

    monkeypatch.setattr(quantization, "saturates", asked)
    x = named_input("x", ROWS, SIZE)
    packed = ov.Model([op.matmul(x, constant(weights(127)), False, False)], [x], "m")
    assert quantization.properties_for(packed, OpenVinoOptions()) == {}


def test_such_models_can_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "saturates", lambda: True)
    with pytest.raises(LoadFailed, match="products of 8 bits in 16 bits"):
        load(of(tmp_path, constant(weights(127))), integers="refuse")


# What else reads a concatenation of which the magnitudes are taken: the numbers themselves.

NUMBERS = [-5, 3, -7, 4]


def joined(x: Any, times: int = 1) -> Any:
    """Put the numbers and their doubles together, again and again."""
    for _ in range(times):
        x = op.concat([x, op.add(x, x)], 0)
    return x


def doubled(numbers: Any, times: int = 1) -> Any:
    for _ in range(times):
        numbers = np.concatenate([numbers, numbers + numbers])
    return numbers


@pytest.mark.parametrize("dtype", [DataType.FP32, DataType.INT32, DataType.INT64])
@pytest.mark.parametrize("size", [len(NUMBERS), -1])
async def test_readers_of_numbers_get_no_magnitudes(
    tmp_path: Path, dtype: DataType, size: int
) -> None:
    """OpenVINO alone gives the magnitudes as both outputs."""
    x = parameter("x", (size,), dtype)
    numbers = joined(x)
    outputs = [result("y", op.add(numbers, numbers)), result("z", op.abs(numbers))]
    model = load(save(tmp_path, outputs, [x]))
    sent = np.array(NUMBERS, dtype.numpy)
    answer = await run(model, {"x": sent})
    assert answer["y"].tolist() == (2 * doubled(sent)).tolist()
    assert answer["z"].tolist() == np.abs(doubled(sent)).tolist()


async def test_readers_of_concatenations_of_concatenations_get_numbers(tmp_path: Path) -> None:
    x = parameter("x", (-1,))
    inner = joined(x)
    outer = op.concat([inner, inner], 0)
    outputs = [result("a", inner), result("b", op.abs(outer)), result("c", op.sign(outer))]
    model = load(save(tmp_path, outputs, [x]))
    sent = np.array(NUMBERS, np.float32)
    answer = await run(model, {"x": sent})
    both = np.concatenate([doubled(sent)] * 2)
    assert answer["a"].tolist() == doubled(sent).tolist()
    assert answer["b"].tolist() == np.abs(both).tolist()
    assert answer["c"].tolist() == np.sign(both).tolist()


async def test_a_check_of_integers_does_not_change_what_it_checks(tmp_path: Path) -> None:
    """Found by `make fuzz`, seed 2136274165: the check takes magnitudes of what a loop gave."""
    x, inner = parameter("x", (4,), DataType.INT32), op.parameter([4], np.int32)
    results = [
        op.result(op.constant(np.array([True]))),
        op.result(op.add(inner, op.constant(np.int32(1)))),
    ]
    loop = op.loop(op.constant(2).output(0), op.constant(np.array(True)).output(0))
    loop.set_function(ov.Model(results, [inner], "rounds"))
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(inner, x.output(0), results[1].output(0))
    turned = loop.get_iter_value(results[1].output(0), -1)
    numbers = op.convert(op.convert(op.concat([turned, turned], 0), "f64"), "i64")
    model = load(save(tmp_path, [result("y", numbers)], [x]))
    sent = np.array([-1379299, 3, -7, 4], np.int32)
    assert (await run(model, {"x": sent}))["y"].tolist() == [*(sent + 2), *(sent + 2)]


def test_concatenations_of_concatenations_stay_small() -> None:
    """Forty concatenations of the one before would be 2**40 if each were made for each reader."""
    x = op.parameter([1], np.float32)
    value = x
    for _ in range(40):
        value = op.concat([value, value], 0)
    model = ov.Model([op.result(op.abs(value)), op.result(value)], [x], "doubled")
    part_absolutes(model)
    names = [each.get_type_name() for each in model.get_ops()]
    assert names.count("Concat") == 80
    assert names.count("Abs") <= 2
