"""The memory of a version goes with it: a server after many switches is as large as after one."""

import re
from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as op
import psutil
import pytest

from tests.functional.conftest import Serve
from tests.functional.load import AVAILABLE, END, states
from tests.process import until

SWITCHES = 20
ROWS, COLUMNS = 1 << 17, 128  # 64 MiB in FP32: more than the slack
BYTES = ROWS * COLUMNS * 4
SLACK = 1.1
SOON_S = 1.0
"""Memory is given back within a second of END."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of an IR that looks up rows of a large table."""
    directory = tmp_path_factory.mktemp("model")
    row = op.parameter([-1], np.int32, name="row")
    table = op.constant(np.random.default_rng(0).random((ROWS, COLUMNS), np.float32))
    found = op.result(op.gather(table, row, op.constant(np.int32(0))))
    ov.save_model(ov.Model([found], [row]), directory / "model.xml", compress_to_fp16=False)
    return directory


def test_memory_after_twenty_switches_is_that_after_the_first(
    serve: Serve, model: Path, tmp_path: Path
) -> None:
    base = tmp_path / "m"
    base.mkdir()
    (base / "1").symlink_to(model)
    flags = ("--file_system_poll_wait_seconds=0.1", "--metrics_path=/metrics")
    server = serve("ie_serving", "model", "--model_name=m", f"--model_path={base}", *flags)
    worker = psutil.Process(server.pids()[-1])

    def switch_to(version: int) -> None:
        (base / str(version)).symlink_to(model)
        until(lambda: states(server, "m").get(version) == AVAILABLE)
        until(lambda: states(server, "m")[version - 1] == END)

    switch_to(2)
    first = worker.memory_info().rss
    for version in range(3, 2 + SWITCHES):
        switch_to(version)
    until(lambda: bool(states(server, "m")) and worker.memory_info().rss < SLACK * first, SOON_S)
    taken = re.search(
        r'ie_serving_version_memory_bytes\{model_name="m",version="21"\} (\d+)',
        server.rest.get("/metrics").text,
    )
    assert taken
    assert BYTES / SLACK < int(taken[1]) < 3 * BYTES
