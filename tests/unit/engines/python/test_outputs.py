"""Outputs of dtype json are values of any kind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.errors import ServingError
from ie_serving.engines.python.model import KernelModel
from ie_serving.wire.json.request import Format
from ie_serving.wire.json.response import encode_predictions
from tests.unit.engines.asking import answer, told
from tests.unit.engines.python.kernels import served


async def fault(model: KernelModel, **inputs: Any) -> str:
    """Ask for what must fail."""
    with pytest.raises(ServingError) as raised:
        await answer(model, **inputs)
    return str(raised.value)


JSONS = """
import numpy as np
def metadata():
    return {"inputs": {"x": {"dtype": "float32", "shape": [-1]}},
            "outputs": {"all": {"dtype": "json"}, "rows": {"dtype": "json", "shape": [-1]}}}
def f(x):
    if x[0] < 0:
        return {"all": {1, 2}, "rows": []}
    return {"all": {"n": x, "i": np.int64(3), "b": b"\\xff", "none": None, "t": "\u00e4"},
            "rows": [{"x": each} for each in x]}
"""


async def test_values_of_any_kind_are_json(tmp_path: Path, opened: list[KernelModel]) -> None:
    opened.append(served(tmp_path, JSONS, "f"))
    assert told(opened[0]) == {"x": "float [-1]", "all": "string []", "rows": "string [-1]"}
    found = await answer(opened[0], x=[1.0, np.nan])
    assert json.loads(found["all"].item()) == {
        **{"n": [1.0, pytest.approx(np.nan, nan_ok=True)], "i": 3},
        **{"b": {"b64": "/w=="}, "none": None, "t": "\u00e4"},
    }
    assert found["rows"].tolist() == [b'{"x": 1.0}', b'{"x": NaN}']
    spec = opened[0].signatures["serving_default"].outputs
    assert (
        encode_predictions(found, Format.COLUMN, spec).split()
        == (
            b'{ "outputs": { "all": %b, "rows": [ {"x": 1.0}, {"x": NaN} ] } }'
            % found["all"].item()
        ).split()
    )
    assert 'returned a set that is no JSON as output "all"' in await fault(opened[0], x=[-1.0])
