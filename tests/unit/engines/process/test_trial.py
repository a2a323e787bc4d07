"""A trial load that is given up; `tests/functional/test_trial_loads.py` has the others."""

from pathlib import Path
from threading import Event

import psutil

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import KernelOptions, Place
from ie_serving.engines.process.trial import TrialLoads

HANGS = "import threading; threading.Event().wait()"


def test_a_trial_that_is_given_up_ends_its_process(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(HANGS)
    kernel = KernelOptions(place=Place(file="kernel.py", name="Hangs", beside=""))
    options = EngineOptions(driver="python", allow_python=True).having(kernel)
    given_up = Event()
    given_up.set()
    before = psutil.Process().children()
    TrialLoads().run("m/1@content", tmp_path, options, given_up)
    assert psutil.Process().children() == before
