"""The driver that computes nothing."""

from pathlib import Path

import numpy as np
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.null import load
from ie_serving.engines.openvino.options import OpenVinoOptions
from tests.unit.engines.asking import answer, strings, told


async def test_it_echoes_numbers_of_any_shape(tmp_path: Path) -> None:
    model = load(tmp_path, EngineOptions())
    for sent in (np.ones((2, 3), np.float32), np.float32(7), np.zeros((0, 4), np.float32)):
        assert (await answer(model, x=sent))["x"].tolist() == sent.tolist()
    model.close()


async def test_it_gives_what_it_is_told_to(tmp_path: Path) -> None:
    params = {
        "inputs": {"a": {"dtype": "string", "shape": [-1]}},
        "outputs": {
            "a": {"dtype": "string", "shape": [-1]},
            "n": {"dtype": "int64", "shape": [-1, 2]},
            "s": {"dtype": "string", "shape": [1]},
        },
    }
    model = load(tmp_path, EngineOptions(params=params))
    assert told(model) == {"a": "string [-1]", "n": "int64 [-1, 2]", "s": "string [1]"}
    answered = await answer(model, a=strings("x", "y", "z"))
    assert answered["a"].tolist() == [b"x", b"y", b"z"]
    assert (answered["n"].dtype, answered["n"].tolist()) == (np.int64, [[0, 0]] * 3)
    assert answered["s"].tolist() == [b""]
    model.close()


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"inputs": {}}, r"params\.inputs: expected an object"),
        ({"inputs": {"x": "float"}}, r"params\.inputs\.x: expected an object"),
        ({"inputs": {"x": {"dtype": "flaot"}}}, r"params\.inputs\.x\.dtype: 'flaot' given"),
        ({"inputs": {"x": {"shape": [-2]}}}, r"params\.inputs\.x\.shape: \[-2\] given"),
        ({"inputs": {"x": {"shape": "any"}}}, r"params\.inputs\.x\.shape: 'any' given"),
        (
            {"inputs": {"x": {"dtype": "float"}}, "outputs": {"x": {"dtype": "int32"}}},
            r"params\.outputs\.x: expected what the input has",
        ),
    ],
)
def test_faults_of_params(tmp_path: Path, params: dict[str, object], fault: str) -> None:
    with pytest.raises(LoadFailed, match=fault):
        load(tmp_path, EngineOptions(params=params))


def test_what_only_openvino_carries_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"^shape: driver null"):
        load(tmp_path, EngineOptions().having(OpenVinoOptions(shape=(4, 2))))
