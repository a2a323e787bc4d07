"""What else reads a concatenation of which the magnitudes are taken: the numbers themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset16 as op
import pytest

from ie_serving.engines.openvino.faults.fusions import part_absolutes
from tests.unit.engines.openvino.models import DataType, load, parameter, result, run, save

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
async def test_who_reads_the_numbers_gets_no_magnitudes(
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


async def test_concatenations_of_concatenations(tmp_path: Path) -> None:
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


def test_what_is_put_together_many_times_over_stays_small() -> None:
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
