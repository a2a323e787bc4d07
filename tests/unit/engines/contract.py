"""What every engine promises: subclass `EngineContract` and say how a model of it is made."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType
from ie_serving.engines.base import CompiledModel, Engine, EngineOptions

WAIT_S = 20.0


def files_of(directory: Path) -> list[str]:
    """List the files of a version directory as a store does."""
    return [str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()]


def copied(outputs: Mapping[str, Array]) -> dict[str, list[float]]:
    """Keep the values of outputs whose memory will be used again."""
    return {name: array.tolist() for name, array in outputs.items()}


def rows(value: float, count: int = 1) -> Array:
    """Give an input of the contract's model: FP32, shape (count, 2)."""
    return np.full((count, 2), value, np.float32)


class EngineContract:
    """The engine under test serves `write_add_one`: y = x + 1, FP32, shape (-1, 2)."""

    engine: Callable[[], Engine]
    write_add_one: Callable[[Path], None]
    spoil: Callable[[Path], None]

    @pytest.fixture
    def model(self, tmp_path: Path) -> CompiledModel:
        type(self).write_add_one(tmp_path)
        return type(self).engine().compile(tmp_path, EngineOptions())

    def test_a_whole_directory_misses_nothing(self, tmp_path: Path) -> None:
        type(self).write_add_one(tmp_path)
        assert type(self).engine().missing(files_of(tmp_path)) is None

    def test_an_empty_directory_misses_something_and_says_what(self) -> None:
        assert "missing" in (type(self).engine().missing([]) or "")

    def test_every_file_of_the_model_is_needed(self, tmp_path: Path) -> None:
        type(self).write_add_one(tmp_path)
        files = files_of(tmp_path)
        for left_out in files:
            assert type(self).engine().missing([f for f in files if f != left_out])

    def test_a_spoilt_model_fails_to_load_in_one_line(self, tmp_path: Path) -> None:
        type(self).write_add_one(tmp_path)
        type(self).spoil(tmp_path)
        with pytest.raises(LoadFailed) as failure:
            type(self).engine().compile(tmp_path, EngineOptions())
        assert "\n" not in str(failure.value)

    def test_the_signature_names_the_tensors(self, model: CompiledModel) -> None:
        signature = model.signatures[SERVING_DEFAULT]
        assert signature.name == SERVING_DEFAULT
        (x,), (y,) = signature.inputs.values(), signature.outputs.values()
        assert (x.name, x.dtype, x.shape, x.tensor) == ("x", DataType.FP32, (-1, 2), "x")
        assert (y.name, y.dtype, y.shape, y.tensor) == ("y", DataType.FP32, (-1, 2), "y")

    @pytest.mark.parametrize("count", [1, 3, 0], ids="{} rows".format)
    async def test_read_gets_the_outputs_and_its_result_is_returned(
        self, model: CompiledModel, count: int
    ) -> None:
        signature = model.signatures[SERVING_DEFAULT]
        answer = await model.infer(signature, {"x": rows(1.0, count)}, copied)
        assert answer == {"y": [[2.0, 2.0]] * count}

    async def test_every_request_gets_its_own_answer(self, model: CompiledModel) -> None:
        signature = model.signatures[SERVING_DEFAULT]
        calls = [model.infer(signature, {"x": rows(i, 1 + i % 3)}, copied) for i in range(50)]
        answers = await asyncio.wait_for(asyncio.gather(*calls), WAIT_S)
        assert answers == [{"y": [[i + 1.0] * 2] * (1 + i % 3)} for i in range(50)]

    async def test_an_exception_of_read_is_passed_on_and_costs_nothing(
        self, model: CompiledModel
    ) -> None:
        signature = model.signatures[SERVING_DEFAULT]

        def refuse(outputs: Mapping[str, Array]) -> None:
            raise ValueError("refused")

        for _ in range(20):
            with pytest.raises(ValueError, match="refused"):
                await model.infer(signature, {"x": rows(1.0)}, refuse)
        answer = await asyncio.wait_for(model.infer(signature, {"x": rows(1.0)}, copied), WAIT_S)
        assert answer == {"y": [[2.0, 2.0]]}

    async def test_cancelled_requests_leave_the_model_serving(self, model: CompiledModel) -> None:
        signature = model.signatures[SERVING_DEFAULT]
        for ticks in range(6):
            tasks = [
                asyncio.ensure_future(model.infer(signature, {"x": rows(i)}, copied))
                for i in range(10)
            ]
            for _ in range(ticks):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)
            assert done[1::2] == [{"y": [[i + 1.0] * 2]} for i in range(1, 10, 2)]

    def test_a_model_that_never_inferred_can_be_closed(self, model: CompiledModel) -> None:
        model.close()
