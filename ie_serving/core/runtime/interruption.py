"""Ctrl-C and SIGTERM end a command with 130 and 143, as a shell counts them: never with 0.

The signal unwinds the main thread, so that a terminal gets its echo back and a half-written file
goes. Code that catches every exception, waits for a thread that hangs, or is in one long call of a
library, as OpenVINO's compiler is, has `GRACE_S` for it; then the process ends regardless. Servers
take these signals over: they drain, and end with 0.
"""

import _thread
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
GRACE_S: Final = 2.0
"""Seconds in which an interrupted command puts back what it has changed, which takes milliseconds.
Docker kills 10 s after its SIGTERM."""
_FROM: Final = 128
"""Exit codes of commands that a signal has ended begin here, in every shell."""

_numbers: list[int] = []
"""The signals that have come."""


def heed() -> None:
    """Take the signals. In the main thread, before anything is imported that takes long."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    arrived, arrives = os.pipe()
    os.set_blocking(arrives, False)
    signal.set_wakeup_fd(arrives, warn_on_full_buffer=False)
    # The pipe is the parent's: a signal to a child must not end the parent.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    _thread.start_new_thread(_watch, (arrived,))


def code_of(command: Callable[[], int]) -> int:
    """Run a command and give its exit code; ends the process where it was interrupted."""
    try:
        code = command()
        # Here, where an interruption still counts: at its own end Python has given the code away.
        with suppress(OSError, ValueError):  # of a reader that has gone, Python tells at its end
            sys.stdout.flush()
        return code
    finally:
        if _numbers:
            _end()


def _watch(arrived: int) -> None:
    """End the process late where `_interrupt` does not run: Python runs it between two calls."""
    while True:
        for number in os.read(arrived, 64):
            if signal.getsignal(number) is _interrupt:
                _end_late(number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _numbers.append(number)
    if len(_numbers) > 1:
        _end()
    # Not a `Thread`: its start takes locks that the main thread may hold at this moment.
    _thread.start_new_thread(_end_late, (number,))
    raise SystemExit(_FROM + number)


def _end_late(number: int) -> None:
    time.sleep(GRACE_S)
    _numbers.append(number)
    _end()


def _end() -> NoReturn:
    """End the process without waiting for threads: one may hang."""
    with suppress(OSError, ValueError, RuntimeError):  # in the midst of a write
        sys.stdout.flush()
    if "ie_serving.core.runtime.scratch" in sys.modules:  # else there is nothing to remove
        from ie_serving.core.runtime.scratch import remove_all

        remove_all()
    os._exit(_FROM + _numbers[0])
