"""Each request has a line at DEBUG, with shapes and dtypes and without a value; else none."""

import logging
import time
from dataclasses import replace

import numpy as np
import pytest

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.inference import debug_lines
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


async def test_a_request_has_a_line_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    found = await lines(caplog, logging.DEBUG)
    assert found[0] == (
        f"request entrypoint=TEST model={MODEL} version=3 signature=serving_default"
        ' inputs="x: float32[2, 2]" outputs=all'
    )
    assert found[1] == f"request of Examples model={MODEL} version=3 signature=regress examples=1"
    assert found[2].endswith('inputs="x: float32[2, 2]" outputs="1 unknown"')
    assert found[-1] == f"request failed model={MODEL} code=INVALID_ARGUMENT"
    assert str(SECRET) not in caplog.text


async def test_at_info_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    assert await lines(caplog, logging.INFO) == []


async def test_names_that_the_model_lacks_are_counted_since_they_may_be_data(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "ie_serving")
    plane, interface = await Heart().plane(), Words().interface()
    caplog.clear()
    inputs = {"x": X, f"{SECRET}": X, "Jane Doe": X}
    request = replace(asked(X), decode=lambda signature: (inputs, "plain"))
    with pytest.raises(InvalidRequest):
        await plane.predict(request, interface, time.perf_counter())
    assert 'inputs="x: float32[2, 2], 2 unknown"' in caplog.text
    assert "Jane" not in caplog.text
    assert str(SECRET) not in caplog.text


def test_a_name_of_any_length_makes_a_short_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ie_serving")
    debug_lines.note_refusal("m" * 1_000_000, Code.NOT_FOUND)
    assert len(caplog.records[0].getMessage()) < 400
