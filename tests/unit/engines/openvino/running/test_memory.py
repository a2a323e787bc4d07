"""What a model held is free once it is closed, without the cyclic collector."""

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import DataType
from ie_serving.engines.openvino.running.slot import Slot
from ie_serving.engines.run.program import Program
from tests.process import until
from tests.unit.engines.openvino.models import load, run, unary

PARTS = (ov.CompiledModel, ov.InferRequest, ov.Model, Slot, Program)
BODIES: dict[str, Callable[[Any], Any]] = {
    "ordinary": op.relu,
    "shapes depend on values": lambda x: op.convert(op.non_zero(x), "f32"),
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def parts() -> dict[int, Any]:
    return {id(each): each for each in gc.get_objects() if isinstance(each, PARTS)}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("execution", ["inline", "async"])
@pytest.mark.parametrize("shape", [[4], [-1]], ids=["fixed", "open"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_nothing_of_a_closed_model_waits_for_the_collector(
    tmp_path: Path, body: Callable[[Any], Any], shape: list[int], execution: str
) -> None:
    before = set(parts())
    model = load(unary(tmp_path, shape, DataType.FP32, body), execution=execution)
    await run(model, {"x": np.ones(4, np.float32)})
    held = [weakref.ref(part) for at, part in parts().items() if at not in before]
    assert held
    model.close()
    del model
    # The thread that closed it may still be about to leave.
    until(lambda: all(ref() is None for ref in held))
