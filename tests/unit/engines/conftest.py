from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ie_serving.engines.openvino.compiling.threads_choice import KeptChoice
from ie_serving.engines.process.supervision import Supervisor
from tests.unit.engines.process.processes import Begin, task


@pytest.fixture(autouse=True)
def no_choice_is_remembered() -> None:
    """Each test chooses the threads of its models anew."""
    KeptChoice.forget()


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts supervised processes that end with the test; give what `task` takes."""
    with ExitStack() as stack:

        def start(**given: Any) -> Supervisor:
            supervisor = Supervisor(task(**given))
            stack.callback(supervisor.close)
            supervisor.start()
            return supervisor

        yield start
