"""What all unit tests share of their process: the budget of bytes, logging, whose requests come."""

import asyncio
import gc
import logging
from collections.abc import Iterator

import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values import hints
from ie_serving.engines.base import REHEARSED
from ie_serving.telemetry.log import logs
from tests.unit.alarms import Alarms


@pytest.fixture(autouse=True, scope="module")
def all_is_given_back() -> Iterator[None]:
    """Nothing of a module's tests holds bytes of the budget when the next one begins.

    A connection that its test leaves open is a cycle with its parser: the garbage collector ends
    it, which may come many modules later.
    """
    yield
    if BUDGET.held:
        gc.collect()
    assert BUDGET.held == 0


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave logging as it was, whichever test set it up by what it calls.

    Requests count as those of clients: a command marks all of its process as rehearsed.
    """
    root, ours = logging.getLogger(), logging.getLogger(logs.OWN)
    levels, handlers = (root.level, ours.level), list(root.handlers)
    token = REHEARSED.set(False)
    yield
    REHEARSED.reset(token)
    logs.CHOSEN.clear()
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture
def restored_words() -> Iterator[None]:
    """Let hints name settings as they did."""
    words = dict(hints.WORDS)
    yield
    hints.speak(words)


@pytest.fixture
async def alarms(monkeypatch: pytest.MonkeyPatch) -> Alarms:
    """Keep the running loop's long timers until the test lets them go off."""
    loop = asyncio.get_running_loop()
    alarms = Alarms(loop)
    monkeypatch.setattr(loop, "call_later", alarms.call_later)
    return alarms
