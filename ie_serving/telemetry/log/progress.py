"""Shows the progress of work that takes seconds, to a user at a terminal, on standard error.

Nothing is written if standard error is no terminal, so that neither logs nor scripts contain it.
Work that ends before a user could read the line leaves no trace either.
"""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TextIO

BEFORE_S: Final = 0.5
"""Seconds after which the line appears; shorter work shows none."""
PAUSE_S: Final = 0.2
"""Seconds between two drawings; faster changes are not readable."""
WIDTH: Final = 24
"""Characters of a bar: with its text it fits into the 80 of the narrowest terminal."""
PIECE: Final = 256 * 1024
"""Bytes of a body between two updates of the progress."""
ERASE: Final = "\r\x1b[K"
"""Moves to the start of the line, and erases the line."""

_drawn: list["ProgressLine"] = []
"""The lines that are shown now."""


def make_room() -> None:
    """Erase the lines on the terminal, before a line of the log; they are drawn again soon."""
    for each in list(_drawn):
        each.erase()


class ProgressLine:
    """One line that a thread redraws, and that is erased at the end. A context manager.

    Args of the constructor:
        what: name of the work.
        total: number of units in all; None if unknown.
        unit: unit of the count; bytes are shown in MB. Empty shows only seconds.
        stream: destination; standard error.
    """

    def __init__(
        self, what: str, total: int | None = None, unit: str = "B", stream: TextIO | None = None
    ) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._began = time.monotonic()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._is_drawn = False
        self._thread: threading.Thread | None = None

    def drawn(self, *, wanted: bool) -> AbstractContextManager[object]:
        """Give itself as the context manager; one without effect if it is not wanted."""
        return self if wanted else nullcontext()

    def __enter__(self) -> "ProgressLine":
        if self._stream.isatty():
            _drawn.append(self)
            self._thread = threading.Thread(target=self._draw_often, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()
            _drawn.remove(self)
        self.erase()

    def show(self, done: int, total: int | None = None) -> None:
        """Set the number of units done, and `total` if it has become known."""
        self._done = done
        self._total = self._total if total is None else total

    def say(self, what: str) -> None:
        """Change the name of the work."""
        self._what = what

    def erase(self) -> None:
        """Erase the line, so that other output can be printed; the next drawing follows that."""
        with self._lock:
            if self._is_drawn:
                self._is_drawn = False
                self._stream.write(ERASE)
                self._stream.flush()

    def _draw_often(self) -> None:
        pause_s = BEFORE_S
        while not self._over.wait(pause_s):
            pause_s = PAUSE_S
            with self._lock:
                self._is_drawn = True
                self._stream.write(f"{ERASE}{self._line()}")
                self._stream.flush()

    def _line(self) -> str:
        words = [self._what]
        if self._unit and self._total:
            filled = min(WIDTH, WIDTH * self._done // self._total)
            words += [
                f"[{'#' * filled}{'.' * (WIDTH - filled)}]",
                f"{self._counted(self._done)} of {self._counted(self._total)}",
            ]
        elif self._unit and self._done:
            words.append(self._counted(self._done))
        return " ".join([*words, f"{time.monotonic() - self._began:.0f} s"])

    def _counted(self, number: int) -> str:
        return f"{number / 1e6:.1f} MB" if self._unit == "B" else f"{number} {self._unit}"


def in_pieces(body: bytes, sending: ProgressLine) -> Iterable[bytes]:
    """Yield a body in pieces, and show how many bytes have been taken."""
    return body if len(body) <= PIECE else _pieces(body, sending)  # type: ignore[return-value]


def _pieces(body: bytes, sending: ProgressLine) -> Iterator[bytes]:
    for start in range(0, len(body), PIECE):
        sending.show(start)
        yield body[start : start + PIECE]
    sending.show(len(body))
    sending.say("sent, waiting for the answer")
