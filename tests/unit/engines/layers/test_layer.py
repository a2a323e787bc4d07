"""A layer passes on what it does not change: a wrapped stand-in keeps an engine's promises."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, Signature
from ie_serving.engines.base import CompiledModel, Engine, EngineOptions, leave_of_all
from ie_serving.engines.layers.layer import Layer, with_defaults
from ie_serving.engines.run.program import CompiledPrograms
from tests.stand_in_engine import FILE, StandInEngine
from tests.unit.engines.contract import EngineContract, copied, rows

WRITTEN = '{"shape": [-1, 2]}'
SIGNATURE = Signature(SERVING_DEFAULT, {}, {})


class Layered:
    """The stand-in engine, each of its models in a layer."""

    name = "layered"

    def __init__(self) -> None:
        self._inner = StandInEngine()

    def missing(self, files: Collection[str]) -> str | None:
        return self._inner.missing(files)

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        return Layer(self._inner.compile(directory, options))


class TestLayer(EngineContract):
    engine: Callable[[], Engine] = Layered

    @staticmethod
    def write_add_one(directory: Path) -> None:
        (directory / FILE).write_text(WRITTEN)

    @staticmethod
    def spoil(directory: Path) -> None:
        (directory / FILE).write_text("{")


class Doubled(Layer):
    """Doubles the inputs."""

    def infer(self, signature: Any, inputs: Mapping[str, Array], read: Any) -> Any:
        return super().infer(signature, {name: 2 * each for name, each in inputs.items()}, read)


async def test_a_layer_changes_what_it_overrides_and_closes_the_inner_model(
    tmp_path: Path,
) -> None:
    TestLayer.write_add_one(tmp_path)
    inner = StandInEngine().compile(tmp_path, EngineOptions())
    model = Doubled(Doubled(inner))
    signature = model.signatures[SERVING_DEFAULT]
    answer = await model.infer(signature, {"x": rows(3.0)}, copied)
    assert np.allclose(answer["y"], 13.0)
    model.close()
    assert inner.closed


class Foreign:
    """A model of another package, which knows nothing of `leave`."""

    signatures: Mapping[str, Any] = {}

    def __init__(self, closed: list[object], error: str = "") -> None:
        self._closed, self._error = closed, error

    def close(self) -> None:
        self._closed.append(self)
        if self._error:
            raise ValueError(self._error)


def test_a_model_of_others_that_only_infers_has_all_methods() -> None:
    closed: list[object] = []
    foreign: Any = Foreign(closed)
    model = Doubled(with_defaults(foreign))
    assert (model.stream, model.update) == (None, None)
    assert not model.ahead(SIGNATURE)
    assert model.leave is not None
    model.leave()
    assert closed == [foreign]


def test_a_model_of_others_keeps_the_methods_that_it_has() -> None:
    foreign: Any = Foreign([])
    foreign.leave, foreign.update = None, print
    foreign.ahead = lambda _: True
    model = with_defaults(foreign)
    assert (model.leave, model.update) == (None, print)
    assert model.ahead(SIGNATURE)


def test_a_model_that_is_memory_is_not_closed_as_the_process_ends() -> None:
    programs = CompiledPrograms([])
    assert Doubled(programs).leave is None
    assert leave_of_all([programs, Doubled(programs)]) is None


def test_each_of_several_models_is_left_whatever_the_others_raise() -> None:
    closed: list[object] = []
    several: Any = [Foreign(closed, "told to"), CompiledPrograms([]), Foreign(closed)]
    leave = leave_of_all(map(with_defaults, several))
    assert leave is not None
    with pytest.raises(ValueError, match="told to"):
        leave()
    assert {*closed} == {several[0], several[2]}
