"""A trial load that is given up; `tests/functional/test_trial_loads.py` has the others."""

from pathlib import Path
from threading import Event

import psutil

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import KernelOptions
from ie_serving.engines.process.trial import TrialLoads

HANGS = """
import threading

class Hangs:
    def load(self, ctx):
        threading.Event().wait()
"""


def test_a_trial_that_is_given_up_ends_its_process(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(HANGS)
    options = EngineOptions(allow_python=True).having(KernelOptions(place="kernel.py"))
    given_up = Event()
    given_up.set()
    before = psutil.Process().children()
    TrialLoads().run("m/1@content", tmp_path, options, given_up)
    assert psutil.Process().children() == before
