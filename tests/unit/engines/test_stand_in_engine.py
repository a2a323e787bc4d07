"""The stand-in engine keeps the contract and can be held and failed at will."""

import json
from pathlib import Path

import numpy as np
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.engines.base import EngineOptions
from tests.stand_in_engine import StandInEngine
from tests.unit.engines.contract import EngineContract, copied


def write(directory: Path, **description: object) -> Path:
    (directory / "engine.json").write_text(json.dumps(description))
    return directory


class TestStandInEngine(EngineContract):
    engine = StandInEngine
    write_add_one = staticmethod(lambda directory: write(directory, shape=[-1, 2]))
    spoil = staticmethod(lambda directory: (directory / "engine.json").write_text("{"))


def test_the_file_can_ask_for_a_failed_load(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="out of luck"):
        StandInEngine().compile(write(tmp_path, fail="out of luck"), EngineOptions())


def test_a_model_is_closed_once(tmp_path: Path) -> None:
    model = StandInEngine().compile(write(tmp_path), EngineOptions())
    model.close()
    with pytest.raises(RuntimeError, match="twice"):
        model.close()


async def test_the_operation_and_its_value_come_from_the_file(tmp_path: Path) -> None:
    model = StandInEngine().compile(
        write(tmp_path, op="multiply", value=3, dtype="INT64"), EngineOptions()
    )
    inputs = {"x": np.array([2], np.int64)}
    assert await model.infer(model.signatures[SERVING_DEFAULT], inputs, copied) == {"y": [6]}
