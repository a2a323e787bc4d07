"""A graph is compiled once more for one row, and requests that come alone take that way."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines.base import GATHERED, EngineOptions
from ie_serving.engines.openvino.compiling import lone_row, programs
from ie_serving.engines.openvino.compiling.lone_row import (
    copy_for_one_row,
    fix_to_one_row,
    shape_of,
)
from ie_serving.engines.openvino.compiling.threads_choice import AS_FAST, SLOWER
from ie_serving.engines.openvino.interface.tensor_specs import Port, SignaturePorts
from ie_serving.engines.run.program import CompiledPrograms, Program
from ie_serving.engines.run.queued_program import LoneRowProgram, QueuedProgram
from tests.tables import named_by
from tests.unit.engines.openvino.models import load, parameter, result, run, save

RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.standard_normal((4, 3)).astype(np.float32)


def perceptron(directory: Path, *batches: Any, tail: tuple[Any, ...] = (4,)) -> Path:
    """Write y = tanh(the sum of all inputs times W), an input for each of `batches`."""
    inputs = [parameter(f"x{i}", [batch, *tail]) for i, batch in enumerate(batches)]
    node = inputs[0]
    for other in inputs[1:]:
        node = op.add(node, other)
    return save(directory, [result("y", op.tanh(op.matmul(node, WEIGHTS, False, False)))], inputs)


def lone_of(model: CompiledPrograms) -> LoneRowProgram | None:
    program = model.programs[SERVING_DEFAULT]
    assert isinstance(program, QueuedProgram)
    return program.lone


def counted(program: Program, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Give a list to which each inference of a program adds the shapes of its inputs."""
    seen: list[Any] = []
    infer = program.infer

    def noted(inputs: Any, read: Any) -> Any:
        seen.append([array.shape for array in inputs.values()])
        return infer(inputs, read)

    monkeypatch.setattr(program, "infer", noted)
    return seen


@pytest.mark.parametrize(
    ("batches", "tail"),
    [
        pytest.param([-1], (4,), id="any batch"),
        pytest.param([(1, 8)], (4,), id="a range"),
        pytest.param([-1, -1], (4,), id="two inputs"),
        pytest.param([-1], (2, 4), id="rows of two dimensions"),
    ],
)
async def test_a_lone_row_is_inferred_by_what_is_compiled_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[Any], tail: tuple[int, ...]
) -> None:
    model = load(perceptron(tmp_path, *batches, tail=tail), ahead=True, inference_precision="f32")
    lone = lone_of(model)
    assert lone is not None
    assert lone.shapes == ((1, *tail),) * len(batches)
    seen = counted(lone.program, monkeypatch)
    for rows in (1, 3, 1):
        inputs: dict[str, Array] = {
            f"x{i}": RANDOM.standard_normal((rows, *tail)).astype(np.float32)
            for i in range(len(batches))
        }
        found = await run(model, inputs)
        wanted = np.tanh(sum(inputs.values()) @ WEIGHTS)
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-6)
    assert seen == [[(1, *tail)] * len(batches)] * 2


@pytest.mark.parametrize(
    ("batch", "tail"),
    [
        pytest.param(-1, (-1, 4), id="another size is open"),
        pytest.param((2, 8), (4,), id="one row is too few"),
        pytest.param(3, (4,), id="the batch is fixed"),
        pytest.param(1, (4,), id="one row is all it takes"),
    ],
)
def test_other_graphs_are_compiled_once(tmp_path: Path, batch: Any, tail: tuple[int, ...]) -> None:
    assert lone_of(load(perceptron(tmp_path, batch, tail=tail), ahead=True)) is None


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"nireq": 2}, id="two infer requests"),
        pytest.param({"plugin_config": {"NUM_STREAMS": "2"}}, id="two streams"),
    ],
)
def test_a_model_that_infers_several_at_once_is_compiled_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    with caplog.at_level("INFO"):
        model = load(perceptron(tmp_path, -1), ahead=True, **options)
    assert caplog.text.count("model compiled") == 1
    assert not model.ahead(model.signatures[SERVING_DEFAULT])


def test_other_devices_have_no_lone_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is computed alike was compared for the CPU plugin alone."""
    with caplog.at_level("INFO"):
        load(perceptron(tmp_path, -1), ahead=True, target_device="HETERO:CPU")
    assert caplog.text.count("model compiled") == 1


def test_a_graph_that_a_failure_spoils_is_compiled_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its infer requests have compiled models of their own, and take nothing ahead."""
    x = parameter("x", [-1, 4])
    save(tmp_path, [result("y", op.non_zero(x))], [x])
    with caplog.at_level("INFO"):
        load(tmp_path, ahead=True)
    assert caplog.text.count("model compiled") == 1


def test_a_model_that_gathers_nothing_is_compiled_once(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level("INFO"):
        load(perceptron(tmp_path, -1))
    assert caplog.text.count("model compiled") == 1
    assert "lone rows" not in caplog.text


def test_many_weights_are_not_held_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lone_row, "MOST_WEIGHTS", WEIGHTS.nbytes)
    assert lone_of(load(perceptron(tmp_path, -1), ahead=True)) is not None
    monkeypatch.setattr(lone_row, "MOST_WEIGHTS", WEIGHTS.nbytes - 1)
    assert lone_of(load(perceptron(tmp_path, -1), ahead=True)) is None


def test_the_graph_keeps_its_open_batch() -> None:
    x = parameter("x", [-1, 4])
    model = ov.Model([op.tanh(x)], [x])
    spec = TensorSpec("x", DataType.FP32, (-1, 4), "x")
    signature = Signature(SERVING_DEFAULT, {"x": spec}, {})
    ports = SignaturePorts(signature, (Port(spec, 0, ((0, 9), (4, 4))),), (), frozenset())
    row = copy_for_one_row(model, ports)
    assert row is not None
    fix_to_one_row(row)
    assert str(model.inputs[0].get_partial_shape()) == "[?,4]"
    assert str(row.model.outputs[0].get_partial_shape()) == "[1,4]"
    (own,) = row.ports.inputs
    assert shape_of(own) == (1, 4) == own.spec.shape
    assert own.static


async def test_an_index_that_is_refused_in_a_batch_is_refused_alone(tmp_path: Path) -> None:
    """What guards the graph is in the copy as well."""
    ids = parameter("ids", [-1, 2], DataType.INT64)
    table = op.constant(np.arange(12, dtype=np.float32).reshape(6, 2))
    save(tmp_path, [result("y", op.gather(table, ids, op.constant(np.int64(0))))], [ids])
    model = load(tmp_path, ahead=True)
    assert lone_of(model) is not None
    for rows in (1, 3):
        with pytest.raises(InvalidTensor):
            await run(model, {"ids": np.full((rows, 2), 6)})
        found = await run(model, {"ids": np.full((rows, 2), 5)})
        assert found["y"].tolist() == [[[10, 11]] * 2] * rows


def lengths_of_a_layer() -> tuple[list[Any], Any]:
    """OpenVINO's plugin ignores lengths in open shapes, and not in those of one row."""
    x, h = parameter("x", [-1, 3, 2]), parameter("h", [-1, 1, 2])
    lengths = parameter("lengths", [-1], DataType.INT32)
    weights = op.constant(np.full((1, 6, 2), 0.1, np.float32))
    bias = op.constant(np.full((1, 6), 0.1, np.float32))
    return [x, h, lengths], op.gru_sequence(x, h, lengths, weights, weights, bias, 2, "forward")


def slopes_that_do_not_fit() -> tuple[list[Any], Any]:
    """OpenVINO infers shapes for them, and its plugin fails with many rows."""
    x = parameter("x", [-1, 4])
    return [x], op.prelu(x, op.constant(np.full((2, 1), 2, np.float32)))


def more_than_memory() -> tuple[list[Any], Any]:
    x = parameter("x", [-1, 4])
    return [x], op.reduce_sum(op.tile(x, op.constant(np.array([1, 1000]))), op.constant([1]))


def cut_to_32_bits() -> tuple[list[Any], Any]:
    """Where many rows may come, the Broadcast is there, and computes in 32 bits."""
    x = parameter("x", [-1, 4], DataType.INT64)
    return [x], op.convert(op.broadcast(x, op.shape_of(x)), "f32")


@named_by(
    "graph",
    ("graph", "inputs"),
    [
        (
            lengths_of_a_layer,
            {
                "x": np.ones((1, 3, 2), np.float32),
                "h": np.zeros((1, 1, 2), np.float32),
                "lengths": np.array([2], np.int32),
            },
        ),
        (slopes_that_do_not_fit, {"x": np.ones((1, 4), np.float32)}),
        (more_than_memory, {"x": np.ones((1, 4), np.float32)}),
        (cut_to_32_bits, {"x": np.full((1, 4), 2**40)}),
    ],
)
async def test_a_request_is_not_answered_alone_that_is_refused_in_a_batch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    graph: Callable[[], tuple[list[Any], Any]],
    inputs: dict[str, Array],
) -> None:
    """Also where the operations are thought to be computed alike."""
    monkeypatch.setattr(lone_row, "unlike", lambda model: "")
    monkeypatch.setattr(BUDGET, "limit", 10_000)
    parameters, node = graph()
    model = load(save(tmp_path, [result("y", node.output(0))], parameters), ahead=True)
    assert lone_of(model) is None
    for gathered in (False, True):
        GATHERED.set(gathered)
        with pytest.raises(InvalidTensor):
            await run(model, inputs)


@pytest.mark.parametrize("execution", ["inline", "async"])
async def test_a_lone_row_runs_where_the_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, execution: str
) -> None:
    model = load(perceptron(tmp_path, -1), ahead=True, execution=execution)
    lone = lone_of(model)
    assert lone is not None
    threads: list[bool] = []
    (slot,) = lone.program.pool.free
    fill = slot.fill

    def noted(inputs: Any) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        fill(inputs)

    monkeypatch.setattr(slot, "fill", noted)
    await run(model, {"x0": np.zeros((1, 4), np.float32)})
    assert threads == [execution == "inline"]


def test_a_lone_row_may_not_be_slower_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[float] = []
    compile_fastest = programs.compile_fastest

    def noted(*given: Any) -> Any:
        chosen.append(given[-1])
        return compile_fastest(*given)

    monkeypatch.setattr(programs, "compile_fastest", noted)
    load(perceptron(tmp_path, -1), ahead=True)
    assert chosen == [SLOWER, AS_FAST]


async def test_a_gathered_batch_stays_one_when_one_row_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(perceptron(tmp_path, -1), ahead=True)
    lone = lone_of(model)
    assert lone is not None
    seen = counted(lone.program, monkeypatch)
    GATHERED.set(True)
    await run(model, {"x0": np.zeros((1, 4), np.float32)})
    assert seen == []


async def test_a_row_that_finds_another_at_work_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(perceptron(tmp_path, -1), ahead=True, execution="async", inference_precision="f32")
    lone = lone_of(model)
    assert lone is not None
    seen = counted(lone.program, monkeypatch)
    x = np.ones((1, 4), np.float32)
    found = await asyncio.gather(*(run(model, {"x0": x * i}) for i in range(4)))
    assert len(seen) == 1
    for i, each in enumerate(found):
        np.testing.assert_allclose(each["y"], np.tanh(x * i @ WEIGHTS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("error", [LoadFailed("no room"), RuntimeError("no room")])
@pytest.mark.parametrize("step", ["compile_fastest", "_slots", "fix_to_one_row"])
def test_a_graph_that_cannot_be_compiled_for_one_row_serves_all_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
    error: Exception,
) -> None:
    before = getattr(programs, step)

    def fail(*given: Any) -> Any:
        if any(isinstance(each, EngineOptions) and each.ahead for each in given):
            return before(*given)
        raise error

    monkeypatch.setattr(programs, step, fail)
    model = load(perceptron(tmp_path, -1), ahead=True)
    assert lone_of(model) is None
    assert "one row is computed as a batch is" in caplog.text
    assert "no room" in caplog.text


async def test_both_refuse_what_fails_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(perceptron(tmp_path, -1), ahead=True)
    lone = lone_of(model)
    assert lone is not None
    for program in (model.programs[SERVING_DEFAULT], lone.program):
        assert isinstance(program.blame(RuntimeError("failed")), InvalidRequest)


def test_closing_lets_go_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[ov.CompiledModel] = []
    monkeypatch.setattr(programs, "release", released.append)
    program = load(perceptron(tmp_path, -1), ahead=True).programs[SERVING_DEFAULT]
    assert isinstance(program, QueuedProgram)
    assert program.lone is not None
    program.close()
    assert program.pool.free == program.lone.program.pool.free == []
    assert len(released) == 2
    assert released[0] is not released[1]
