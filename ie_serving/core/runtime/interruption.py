"""Ends commands on Ctrl-C and SIGTERM with 130 and 143, as shells expect, and never with 0.

The signal unwinds the main thread, so that a terminal gets its echo back and a half-written file
is removed. Code that catches every exception, waits for a hung thread, or is in one long call of a
library, such as OpenVINO's compiler, has `GRACE_S` for that; then the process ends regardless.
Servers replace these handlers: they drain, and end with 0.

A signal that arrives before `heed` ends Python with a traceback. So this module, and what
`app/main.py` imports beside it, import only what Python itself has loaded by then: `typing` and
`contextlib` would double the time of their import.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as in `typing`, which is not imported
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
GRACE_S: Final = 2.0
"""Seconds in which an interrupted command may undo its changes, which takes milliseconds; then the
process ends. Docker kills 10 s after its SIGTERM."""
_FROM: Final = 128
"""Base of the exit codes of commands that a signal has ended, in every shell."""

_numbers: list[int] = []
"""The signals that were received."""


def heed() -> None:
    """Install the handlers. In the main thread, before any slow import."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    arrived, arrives = os.pipe()
    os.set_blocking(arrives, False)
    signal.set_wakeup_fd(arrives, warn_on_full_buffer=False)
    # The pipe belongs to the parent: a signal to a child must not end the parent.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    _thread.start_new_thread(_watch, (arrived,))


def code_of(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; if it was interrupted, end the process."""
    try:
        code = command()
        # Flushed here, where an interruption still counts: later Python has the exit code already.
        _flush()  # if the reader has gone, Python reports that at exit
        return code
    finally:
        if _numbers:
            _end()


def _watch(arrived: int) -> None:
    """End the process after a delay if `_interrupt` does not run, as during one long call."""
    while True:
        for number in os.read(arrived, 64):
            if signal.getsignal(number) is _interrupt:
                _end_late(number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _numbers.append(number)
    if len(_numbers) > 1:
        _end()
    # `Thread.start` would take locks that the main thread may hold at this moment.
    _thread.start_new_thread(_end_late, (number,))
    raise SystemExit(_FROM + number)


def _end_late(number: int) -> None:
    time.sleep(GRACE_S)
    _numbers.append(number)
    _end()


def _end() -> NoReturn:
    """End the process without waiting for threads: one may hang."""
    _flush()
    if "ie_serving.core.runtime.scratch" in sys.modules:  # else there is nothing to remove
        from ie_serving.core.runtime.scratch import remove_all

        remove_all()
    os._exit(_FROM + _numbers[0])


def _flush() -> None:
    try:  # noqa: SIM105 (`contextlib`, see above)
        sys.stdout.flush()
    except (OSError, ValueError, RuntimeError):  # a signal may come during a write
        pass
