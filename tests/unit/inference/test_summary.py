"""Each request has a line at DEBUG, with shapes and dtypes and without a value; else none."""

import logging
import time

import numpy as np
import pytest

from ie_serving.core.errors import InvalidRequest
from tests.unit.inference.stand_ins import MODEL, Heart
from tests.unit.inference.test_plane import Words, asked, examples

SECRET = 4321.5
X = np.full((2, 2), SECRET, np.float32)


async def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    caplog.set_level(level, "ie_serving")
    plane, interface = await Heart().plane(), Words().interface()
    caplog.clear()
    await plane.predict(asked(X), interface, time.perf_counter())
    rows = examples([SECRET], signature="regress")
    await plane.regress(rows, interface, time.perf_counter(), lambda r: r)
    with pytest.raises(InvalidRequest):
        await plane.predict(asked(X, output_filter=("z",)), interface, time.perf_counter())
    return [record.getMessage() for record in caplog.records]


async def test_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    found = await lines(caplog, logging.DEBUG)
    assert found[0] == (
        f"request entrypoint=TEST model={MODEL} version=3 signature=serving_default"
        ' inputs="x: float32[2, 2]" outputs=all'
    )
    assert found[1] == f"request of Examples model={MODEL} version=3 signature=regress examples=1"
    assert found[2].endswith('inputs="x: float32[2, 2]" outputs=z')
    assert found[-1] == f"request failed model={MODEL} code=INVALID_ARGUMENT"
    assert str(SECRET) not in caplog.text


async def test_at_info_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    assert await lines(caplog, logging.INFO) == []
