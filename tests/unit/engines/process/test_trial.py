"""Trial loads that are given up, or find no memory; `tests/functional` has the others."""

from pathlib import Path
from threading import Event

import psutil
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import CodeSource, KernelOptions
from ie_serving.engines.process.trial import TrialLoads
from tests.unit.engines.openvino.models import linear

HANGS = "import threading; threading.Event().wait()"
LOADS = """
import mmap, pathlib, threading
import numpy as np

class Loads:
    def load(self, ctx):
        {}

    def metadata(self):
        number = {{"dtype": "float32", "shape": [-1]}}
        return {{"inputs": {{"x": number}}, "outputs": {{"y": number}}}}

    def execute(self, inputs):
        return inputs["x"]
"""
GROWS = LOADS.format("self.kept = np.ones(1 << 25); threading.Event().wait()")
MAPS = LOADS.format("""
        with (pathlib.Path(__file__).parent / "weights").open("rb") as file:
            self.kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        assert sum(self.kept[::4096]) == 0
""")


def kernel(name: str) -> EngineOptions:
    """Give the options of a model whose versions are a kernel."""
    place = CodeSource(file="kernel.py", name=name, beside="")
    options = EngineOptions(driver="python", allow_python=True)
    return options.having(KernelOptions(source=place))


def test_a_trial_that_is_given_up_ends_its_process(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(HANGS)
    given_up = Event()
    given_up.set()
    before = {*psutil.Process().children()}
    TrialLoads().run("m/1@content", tmp_path, kernel("Hangs"), given_up)
    assert before.issuperset(psutil.Process().children())


def test_a_trial_takes_no_more_memory_than_there_is(tmp_path: Path) -> None:
    """Else the kernel might end the server instead, or all of a container."""
    (tmp_path / "kernel.py").write_text(GROWS)
    trials = TrialLoads(lambda: 250_000_000)
    with pytest.raises(LoadFailed, match=r"with [23]\d\d MB in use, and there is no more"):
        trials.run("m/1@content", tmp_path, kernel("Loads"), Event())


def test_a_trial_with_room_for_the_version_succeeds(tmp_path: Path) -> None:
    room = 4_000_000_000
    trials = TrialLoads(lambda: room)
    version = linear(tmp_path, 2)
    trials.run("m/1@content", version, EngineOptions(), Event())
    room = 0
    # It has passed, and is not repeated.
    trials.run("m/1@content", version, EngineOptions(), Event())


def test_mapped_files_take_no_memory_of_a_trial(tmp_path: Path) -> None:
    """The kernel drops their pages where other memory is needed, and workers share them."""
    (tmp_path / "kernel.py").write_text(MAPS)
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(300 << 20)
    room = 280_000_000
    trials = TrialLoads(lambda: room)
    trials.run("m/1@content", tmp_path, kernel("Loads"), Event())
    room = 0
    trials.run("m/1@content", tmp_path, kernel("Loads"), Event())  # it has passed
