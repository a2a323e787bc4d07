"""What becomes of signals to a fork; the rest is in `tests/functional/test_forks.py`."""

import sys

from tests.process import output_of

SIGNALLED = """
import os
import signal
from ie_serving.engines.run import forks

heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append("SIGTERM"))
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
forks.watch()
number = os.fork()
if not number:
    os._exit(0)
_, status = os.waitpid(number, 0)
print(os.waitstatus_to_exitcode(status), heard, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_a_signal_to_a_fork_that_has_just_begun_ends_it() -> None:
    """It came to the handler of the server, which is gone when that would run: nobody heard it."""
    assert output_of(sys.executable, "-c", SIGNALLED) == ["-15 [] set()"]
