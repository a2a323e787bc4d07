"""What becomes of signals to a fork; the rest is in `tests/functional/test_forks.py`."""

import signal
import sys

import pytest

from tests.process import output_of

SIGNALLED = """
import os
import signal
import sys
from ie_serving.engines.run import forks

heard = []
signal.pthread_sigmask(signal.SIG_BLOCK, [int(each) for each in sys.argv[1:]])
signal.signal(signal.SIGTERM, lambda *_: heard.append("SIGTERM"))
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
forks.watch()
number = os.fork()
if not number:
    os._exit(0)
_, status = os.waitpid(number, 0)
blocked = [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
print(os.waitstatus_to_exitcode(status), heard, blocked)
"""


@pytest.mark.parametrize("blocked", [(), (int(signal.SIGTERM),)], ids=["heard", "blocked"])
def test_a_signal_to_a_fork_that_has_just_begun_ends_it(blocked: tuple[int, ...]) -> None:
    """It came to the handler of the server, which is gone when that would run: no handler heard it.

    Threads that run user code may have it blocked, and do so as before.
    """
    said = output_of(sys.executable, "-c", SIGNALLED, *map(str, blocked))
    assert said == [f"-15 [] {list(blocked)}"]
