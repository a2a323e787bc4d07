"""Many switches of a large model: its memory goes with each version, and others never wait.

Over both interfaces the large model answers as OpenVINO does, and a small one is asked meanwhile.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import psutil
import pytest
import tensorflow as tf

from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.load import AVAILABLE, END, states
from tests.functional.loop_time import MOST_HELD_S, LoopTime
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.serving import several
from tests.functional.test_digits import IMAGES, over_grpc, over_rest
from tests.process import PATIENCE_S, until
from tests.unit.engines.openvino.models import looked_up

WATCHED = 3
"""Switches during which the small model is asked over each interface, as fast as it answers."""
ROWS, COLUMNS = 1 << 17, 128  # 64 MiB in FP32: more than the slack
BYTES = ROWS * COLUMNS * 4
SLACK = 1.1
SOON_S = 1.0
"""Memory is given back within a second of END."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of an IR that looks up rows of a large table."""
    table = np.random.default_rng(0).random((ROWS, COLUMNS), np.float32)
    return looked_up(tmp_path_factory.mktemp("model"), table)


def row_over_grpc(server: Server, row: int) -> Any:
    request = predict_request("m", row=[row])
    (found,) = server.prediction.Predict(request, PATIENCE_S).outputs.values()
    return tf.make_ndarray(found)


def row_over_rest(server: Server, row: int) -> Any:
    reply = server.rest.post("/v1/models/m:predict", json={"inputs": [row]})
    return np.array(reply.json()["outputs"], np.float32)


class Switches:
    """Changes the large model from one version to the next."""

    def __init__(self, server: Server, model: Path, base: Path) -> None:
        self._server, self._model, self._base = server, model, base
        self._direct = ov.Core().compile_model(model / "model.xml", "CPU")
        self.version = 1

    def switch(self, times: int, ask: Callable[[Server, int], Any]) -> None:
        """Switch so many times; each version answers, as OpenVINO does without a server."""
        for _ in range(times):
            self.version += 1
            (self._base / str(self.version)).symlink_to(self._model)
            until(lambda: states(self._server, "m").get(self.version) == AVAILABLE)
            until(lambda: states(self._server, "m")[self.version - 1] == END)
            expected = self._direct(np.array([self.version], np.int32))[0]
            np.testing.assert_array_equal(ask(self._server, self.version), expected)


@pytest.mark.parametrize("count", [9, pytest.param(20, marks=pytest.mark.soak)])
def test_memory_after_many_switches_is_that_after_the_first(
    serve: Serve, model: Path, tmp_path: Path, count: int
) -> None:
    base = tmp_path / "m"
    base.mkdir()
    (base / "1").symlink_to(model)
    models = several(tmp_path / "config.json", {"m": str(base), "digits": str(SAMPLE)})
    flags = ("--file_system_poll_wait_seconds=0.1", "--metrics_path=/metrics")
    server = serve("ie_serving", *models, *flags, "--inference_precision=f32")
    worker = psutil.Process(server.pids()[-1])
    switches = Switches(server, model, base)
    switches.switch(1, row_over_grpc)
    first = worker.memory_info().rss
    image = IMAGES[:1]
    small = {row_over_grpc: over_grpc, row_over_rest: over_rest}
    for ask, ask_small in small.items():
        loops = [LoopTime(server, partial(ask_small, server, None, image)) for _ in range(WATCHED)]
        for loop in loops:
            with loop:
                switches.switch(1, ask)
        # The least: what a switch does to others it does each time, what else the machine does not.
        assert min(loop.longest_s for loop in loops) < MOST_HELD_S
        assert min(loop.waited_s for loop in loops) < MOST_HELD_S
    switches.switch(count - 1 - len(small) * WATCHED, row_over_grpc)
    until(lambda: bool(states(server, "m")) and worker.memory_info().rss < SLACK * first, SOON_S)
    taken = re.search(
        rf'ie_serving_version_memory_bytes{{model_name="m",version="{switches.version}"}} (\d+)',
        server.rest.get("/metrics").text,
    )
    assert taken
    assert BYTES / SLACK < int(taken[1]) < 3 * BYTES
