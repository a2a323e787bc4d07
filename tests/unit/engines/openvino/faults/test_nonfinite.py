"""NaN and infinity of a request come out as the operations mean, or the request is refused."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType
from ie_serving.engines.openvino.compiling.properties import CAPABILITY
from ie_serving.engines.openvino.faults import nonfinite
from ie_serving.engines.openvino.runtime import core
from ie_serving.engines.run.program import Program
from tests.unit.engines.openvino.models import load, parameter, result, run, save

NAN, INF = np.nan, np.inf
Make = Callable[[Any], Any]
ROW = [0.5, NAN, 0.25, 0.75, 0.125]
SIZES = pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])


def const(value: Any, dtype: type = np.float32) -> Any:
    return op.constant(np.array(value, dtype))


AXIS = op.constant(np.array([1]))


async def each_computed(
    directory: Path, makes: Mapping[str, Make], x: Array, *, is_open: bool
) -> dict[str, Array]:
    """Ask a model before and after with finite numbers: these are computed as ever."""
    x = np.asarray(x, np.float32)
    port = parameter("x", [-1] * x.ndim if is_open else x.shape)
    results = [result(name, make(port)) for name, make in makes.items()]
    model = load(save(directory, results, [port]), inference_precision="f32")
    finite = {"x": np.nan_to_num(x, nan=1.5, posinf=0.9)}
    expected = await run(model, finite)
    answers = await run(model, {"x": x})
    for name, answer in (await run(model, finite)).items():
        assert np.array_equal(answer, expected[name], equal_nan=True), name
    model.close()
    return answers


async def computed(directory: Path, make: Make, x: Array, *, is_open: bool) -> Any:
    return (await each_computed(directory, {"y": make}, x, is_open=is_open))["y"]


OWN: Mapping[str, Make] = {
    "Abs": op.abs,
    "Acos": op.acos,
    "Acosh": lambda x: op.acosh(op.add(x, const(1))),
    "Asin": op.asin,
    "Asinh": op.asinh,
    "Atan": op.atan,
    "Atanh": op.atanh,
    "Ceiling": op.ceiling,
    "Clamp": lambda x: op.clamp(x, -1.0, 1.0),
    "Cos": op.cos,
    "Cosh": op.cosh,
    "Elu": lambda x: op.elu(x, 1.0),
    "Erf": op.erf,
    "Exp": op.exp,
    "FakeQuantize": lambda x: op.fake_quantize(x, const(-1), const(1), const(-1), const(1), 256),
    "Floor": op.floor,
    "Gelu": lambda x: op.gelu(x, "erf"),
    "HSigmoid": op.hsigmoid,
    "HSwish": op.hswish,
    "HardSigmoid": lambda x: op.hard_sigmoid(x, const(0.2), const(0.5)),
    "Log": op.log,
    "Mish": op.mish,
    "PRelu": lambda x: op.prelu(x, const([0.1])),
    "Relu": op.relu,
    "Round": lambda x: op.round(x, "half_to_even"),
    "Selu": lambda x: op.selu(x, const([1.67]), const([1.05])),
    "Sigmoid": op.sigmoid,
    "Sign": op.sign,
    "Sin": op.sin,
    "Sinh": op.sinh,
    "SoftPlus": op.softplus,
    "SoftSign": op.softsign,
    "Sqrt": op.sqrt,
    "Swish": op.swish,
    "Tan": op.tan,
    "Tanh": op.tanh,
}


def test_each_operation_of_one_number_is_tried() -> None:
    assert OWN.keys() == set(nonfinite.OWN.split())


BOTH: Mapping[str, Make] = {
    "relu behind a sum": lambda x: op.relu(op.add(x, const(1))),
    "maximum": lambda x: op.maximum(x, const(0)),
    "maximum of zero": lambda x: op.maximum(const(0), x),
    "minimum": lambda x: op.minimum(op.negative(x), x),
    "a clip": lambda x: op.minimum(op.maximum(x, const(-1)), const(1)),
    "a quotient": lambda x: op.divide(const(2), x),
    "a square": lambda x: op.power(x, const(2)),
}


@SIZES
@pytest.mark.parametrize("makes", [OWN, BOTH], ids=["of one number", "of two"])
async def test_nan_stays_where_it_is(
    tmp_path: Path, makes: Mapping[str, Make], is_open: bool
) -> None:
    answers = await each_computed(tmp_path, makes, np.array(ROW), is_open=is_open)
    for name, answer in answers.items():
        assert np.isnan(answer).tolist() == np.isnan(ROW).tolist(), name


TRUTHS: Mapping[str, tuple[Make, bool]] = {
    "Greater": (lambda x: op.greater(x, const(0)), False),
    "Greater of zero": (lambda x: op.greater(const(0), x), False),
    "GreaterEqual": (lambda x: op.greater_equal(x, const(0)), False),
    "Less": (lambda x: op.less(x, const(0)), False),
    "LessEqual": (lambda x: op.less_equal(x, const(0)), False),
    "Equal": (lambda x: op.equal(x, x), False),
    "NotEqual": (lambda x: op.not_equal(x, const(0)), True),
    "Convert": (lambda x: op.convert(x, "boolean"), True),
    "IsNaN": (op.is_nan, True),
    "IsFinite": (op.is_finite, False),
}


@SIZES
async def test_nan_is_compared_as_ieee_754_says(tmp_path: Path, is_open: bool) -> None:
    makes = {name: make for name, (make, _) in TRUTHS.items()}
    answers = await each_computed(tmp_path, makes, np.array(ROW), is_open=is_open)
    for name, (_, expected) in TRUTHS.items():
        assert bool(answers[name][1]) is expected, name


ROWS: Mapping[str, Make] = {
    "sum": lambda x: op.reduce_sum(x, AXIS, True),
    "mean": lambda x: op.reduce_mean(x, AXIS, True),
    "product": lambda x: op.reduce_prod(x, AXIS, True),
    "greatest": lambda x: op.reduce_max(x, AXIS, True),
    "least": lambda x: op.reduce_min(x, AXIS, False),
    "magnitudes": lambda x: op.reduce_l1(x, AXIS, True),
    "length": lambda x: op.reduce_l2(x, AXIS, True),
    "softmax": lambda x: op.softmax(x, 1),
    "softmax in parts": lambda x: op.exp(op.subtract(x, op.reduce_max(x, AXIS, True))),
    "log softmax": lambda x: op.log_softmax(x, 1),
    "length 1": lambda x: op.normalize_l2(x, AXIS, 1e-9, "add"),
    "variance 1": lambda x: op.mvn(x, AXIS, True, 1e-9, "inside_sqrt"),
    "cumulative sum": lambda x: op.slice(
        op.cumsum(x, const(1, np.int64)), *(const([at], np.int64) for at in (1, 5, 1, 1))
    ),
    "product of matrices": lambda x: op.matmul(x, const(np.ones((5, 3))), False, False),
}


@SIZES
async def test_nan_makes_nan_of_its_row_alone(tmp_path: Path, is_open: bool) -> None:
    rows = np.array([ROW, np.nan_to_num(ROW)])
    for name, answer in (await each_computed(tmp_path, ROWS, rows, is_open=is_open)).items():
        assert np.isnan(answer[0]).all(), name
        assert not np.isnan(answer[1]).any(), name


@SIZES
async def test_infinity_lowered_by_itself_is_nan(tmp_path: Path, is_open: bool) -> None:
    makes = {name: ROWS[name] for name in ("softmax", "log softmax")}
    rows = np.array([[1, INF, 2], [-INF, 0, 1]])
    for answer in (await each_computed(tmp_path, makes, rows, is_open=is_open)).values():
        assert np.isnan(answer[0]).all()
        assert not np.isnan(answer[1]).any()


async def test_convolutions_keep_nan_in_their_windows(tmp_path: Path) -> None:
    image = np.zeros((1, 1, 8, 8), np.float32)
    image[0, 0, 4, 4] = NAN
    kernel = const(np.ones((1, 1, 3, 3)))
    answer = await computed(
        tmp_path,
        lambda x: op.relu(op.convolution(x, kernel, [1, 1], [1, 1], [1, 1], [1, 1])),
        image,
        is_open=False,
    )
    expected = np.zeros((8, 8), bool)
    expected[3:6, 3:6] = True
    assert np.isnan(answer[0, 0]).tolist() == expected.tolist()


LOST: Mapping[str, Make] = {
    "TopK": lambda x: op.topk(x, const(1, np.int64), 1, "max", "value").output(1),
    "MaxPool": lambda x: op.max_pool(
        op.unsqueeze(x, const([0], np.int64)), [1], [1], [0], [0], [2]
    ).output(0),
}


@SIZES
@pytest.mark.parametrize("name", LOST)
async def test_an_operation_that_may_lose_nan_is_refused_by_name(
    tmp_path: Path, name: str, is_open: bool
) -> None:
    with pytest.raises(InvalidTensor, match=f'{name} "[^"]+" is given NaN or infinity'):
        await computed(tmp_path, LOST[name], np.array([ROW]), is_open=is_open)


async def test_a_model_that_looks_for_nan_itself_is_not_refused(tmp_path: Path) -> None:
    """Tables write what is missing so: the model puts a number for it."""

    def body(x: Any) -> Any:
        known = op.select(op.is_nan(x), const(0.5), x)
        return op.topk(op.relu(known), const(1, np.int64), 1, "max", "value").output(1)

    answer = await computed(tmp_path, body, np.array([ROW]), is_open=True)
    assert answer.tolist() == [[3]]


@pytest.mark.parametrize("precision", ["bf16", "f16"])
async def test_nan_is_kept_in_lower_precisions(tmp_path: Path, precision: str) -> None:
    """In f16 a softmax of NaN was 65504."""
    if CAPABILITY[precision] not in core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip(f"the CPU does not compute in {precision}")
    port = parameter("x", [2, 5])
    save(tmp_path, [result("y", op.softmax(op.relu(port), 1))], [port])
    model = load(tmp_path, inference_precision=precision)
    answer = (await run(model, {"x": np.array([ROW, [0] * 5], np.float32)}))["y"]
    np.testing.assert_array_equal(answer[0], [NAN] * 5)
    np.testing.assert_allclose(answer[1], [0.2] * 5, rtol=1e-2)
    model.close()


async def test_in_a_branch_nan_is_kept(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        chosen, other = parameter("chosen", [-1]), parameter("other", [-1])
        results = op.result(op.relu(chosen)), op.result(op.negative(other))
        branch = op.if_op(
            op.greater(op.gather(x, const(0, np.int64), const(0, np.int64)), const(0))
        )
        branch.set_then_body(ov.Model([results[0]], [chosen], "then"))
        branch.set_else_body(ov.Model([results[1]], [other], "else"))
        branch.set_input(x.output(0), chosen, other)
        return branch.set_output(*results)

    answer = await computed(tmp_path, body, np.array(ROW), is_open=True)
    assert np.isnan(answer).tolist() == np.isnan(ROW).tolist()


def test_graphs_that_keep_nan_look_at_no_request() -> None:
    x, ids = parameter("x", [-1]), parameter("ids", [-1], DataType.INT32)
    linear = ov.Model([op.result(op.add(op.multiply(x, const(2)), const(1)))], [x], "linear")
    relu = op.relu(op.gather(const(np.ones(3)), ids, const(0, np.int64)))
    of_integers = ov.Model([op.result(relu)], [ids], "of integers")
    assert not nonfinite.loses_nonfinite(linear)
    assert not nonfinite.loses_nonfinite(of_integers)
    assert nonfinite.loses_nonfinite(ov.Model([op.result(op.relu(x))], [x], "relu"))


async def test_a_second_graph_that_cannot_be_had_refuses_the_request(tmp_path: Path) -> None:
    x = parameter("x", [-1])
    directory = save(tmp_path / "1", [result("y", op.relu(x))], [x])
    model = load(directory)
    for file in directory.iterdir():
        file.unlink()
    with pytest.raises(InvalidTensor, match="compiled a second time, and this failed"):
        await run(model, {"x": np.array(ROW, np.float32)})
    assert (await run(model, {"x": np.float32([1, -1])}))["y"].tolist() == [1, 0]


async def test_a_request_that_goes_another_way_teaches_nothing_of_how_long_it_takes(
    tmp_path: Path,
) -> None:
    """It counted as an inference of no time: long ones would have come to the event loop."""
    x = parameter("x", [5])
    model = load(save(tmp_path, [result("y", op.relu(x))], [x]), execution="async")
    for _ in range(3):
        await run(model, {"x": np.ones(5, np.float32)})
    program = model.programs[SERVING_DEFAULT]
    assert isinstance(program, Program)
    known = dict(program.latency.mean_s)
    assert known
    for _ in range(3):
        assert np.isnan((await run(model, {"x": np.array(ROW, np.float32)}))["y"][1])
    assert program.latency.mean_s == known
