"""A terminal that is read all the time: a process that writes to an unread one waits for ever."""

import os
import pty
import re
import threading
from contextlib import suppress
from typing import Final

from tests.process import PATIENCE_S, until

PIECE: Final = 4096


class Terminal:
    """A pseudo-terminal, and what it has shown. A context manager.

    `end` is the descriptor that programs read and write. It is closed at the exit.
    """

    def __init__(self) -> None:
        self._own, self.end = pty.openpty()
        self.shown = ""
        self._reading = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Terminal":
        self._reading.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.end)
        self._reading.join(PATIENCE_S)
        os.close(self._own)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._own, keys.encode())

    def until(self, pattern: str) -> str:
        """Wait until this has been shown, and give all that has been."""
        until(lambda: re.search(pattern, self.shown) is not None)
        return self.shown

    def _read(self) -> None:
        # A terminal whose other end is closed by the last one ends by an error.
        with suppress(OSError):
            while piece := os.read(self._own, PIECE):
                self.shown += piece.decode(errors="replace")
