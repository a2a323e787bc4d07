"""Outputs of dtype json are values of any kind."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import ServingError
from ie_serving.engines.python.kernel_model import KernelModel
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


NUMBERS = """
import numpy as np
def metadata():
    return {"inputs": {"x": {"dtype": "float32", "shape": [-1]}},
            "outputs": {"y": {"dtype": "%s", "shape": [-1]}}}
def f(x):
    return {"y": %s}
"""


@pytest.mark.parametrize(
    ("dtype", "given", "text"),
    [
        pytest.param("float32", "[1.0, None]", 'returned None as output "y"', id="None"),
        pytest.param("float32", "[object()]", "returned a object as output", id="an object"),
        pytest.param("float32", "[{'a': 1}]", "returned a dict as output", id="a dict"),
        pytest.param("float32", "['a']", "returned a str as output", id="a text"),
        pytest.param("int64", "[1, 2**70]", "returned an integer of 71 bits as", id="an integer"),
        pytest.param("float32", "[1.0, 1e60]", r"returned 1e\+60 as output", id="beyond float32"),
        pytest.param("float16", "[1e5]", "returned 100000 as output", id="beyond float16"),
        pytest.param("int8", "[300]", "no int8 as output", id="beyond int8"),
        pytest.param(
            "float32",
            "np.ma.masked_array(np.ones(2, np.float32), [True, False])",
            "returned a masked array as output .*filled",
            id="a mask",
        ),
    ],
)
async def test_numbers_that_are_none(
    tmp_path: Path, opened: list[KernelModel], dtype: str, given: str, text: str
) -> None:
    opened.append(served(tmp_path, NUMBERS % (dtype, given), "f"))
    assert re.search(text, await fault(opened[0], x=[1.0]))


async def test_infinity_is_a_number(tmp_path: Path, opened: list[KernelModel]) -> None:
    opened.append(served(tmp_path, NUMBERS % ("float32", "[float('inf'), 0.1]"), "f"))
    assert (await answer(opened[0], x=[1.0]))["y"].tolist() == [np.inf, np.float32(0.1)]
