"""What is being started ends at once when the server ends."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.process.child_process import Starts
from ie_serving.engines.process.supervision import Supervisor
from tests.process import PATIENCE_S
from tests.unit.engines.process.processes import task


class Noted(Supervisor):
    """A supervisor that tells when its start has begun."""

    def __init__(self, begun: threading.Event) -> None:
        super().__init__(task(hang=True, load_limit_s=10 * PATIENCE_S))
        self._begun = begun

    def _supervise(self) -> None:
        self._begun.set()
        super()._supervise()


def test_a_start_under_way_ends_and_none_begins_any_more() -> None:
    starts, begun = Starts(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        started = threads.submit(starts.run, Noted(begun))
        assert begun.wait(PATIENCE_S)
        starts.end()
        with pytest.raises(LoadFailed, match="the version is being unloaded"):
            started.result(PATIENCE_S)
    with pytest.raises(LoadFailed, match="the server is being stopped"):
        starts.run(Noted(begun))


def test_a_start_that_succeeds_gives_what_was_found() -> None:
    with closing(Supervisor(task())) as supervisor:
        assert Starts().run(supervisor).tensors
