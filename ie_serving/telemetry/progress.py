"""How far something is that takes seconds, for a person at a terminal: on standard error alone.

Nothing is written where standard error is no terminal, so that neither logs nor scripts see any of
it. What is over sooner than a person can read leaves no trace either.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

BEFORE_S: Final = 0.5
"""Seconds after which a bar appears: what is over by then needs none."""
PAUSE_S: Final = 0.1
"""Seconds between two drawings, faster than which nobody reads."""
WIDTH: Final = 24
PIECE: Final = 256 * 1024
ERASE: Final = "\r\x1b[K"
"""Back to the beginning of the line, and what stood there is gone."""


class Bar:
    """One line that is drawn over again, and erased at the end. A context manager.

    Args of the constructor:
        what: is going on.
        total: of what is counted; None where nobody knows.
        unit: of what is counted; bytes are shown in MB.
        stream: where to; standard error.
    """

    def __init__(
        self, what: str, total: int | None = None, unit: str = "B", stream: TextIO | None = None
    ) -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._is_on = self._stream.isatty()
        self._next = time.monotonic() + BEFORE_S
        self._drawn = False

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def show(self, done: int, total: int | None = None) -> None:
        """Tell how far it is; `total` where it has become known."""
        self._total = self._total if total is None else total
        if not self._is_on or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PAUSE_S
        self._drawn = True
        self._stream.write(f"{ERASE}{self._line(done)}")
        self._stream.flush()

    def say(self, what: str) -> None:
        """Change what is going on."""
        self._what = what

    def erase(self) -> None:
        """Leave an empty line to whatever is printed next."""
        if self._drawn:
            self._drawn = False
            self._stream.write(ERASE)
            self._stream.flush()

    def _line(self, done: int) -> str:
        count = self._counted(done)
        if not self._total:
            return f"{self._what} {count}"
        filled = min(WIDTH, WIDTH * done // self._total)
        bar = f"[{'#' * filled}{'.' * (WIDTH - filled)}]"
        return f"{self._what} {bar} {count} of {self._counted(self._total)}"

    def _counted(self, number: int) -> str:
        return f"{number / 1e6:.1f} MB" if self._unit == "B" else f"{number} {self._unit}"


def in_pieces(body: bytes, bar: Bar) -> Iterable[bytes]:
    """Give a body in pieces, and tell a bar how many bytes have been taken.

    A body of one piece is given whole: nobody sees a bar of it.
    """
    return body if len(body) <= PIECE else _pieces(body, bar)  # type: ignore[return-value]


def _pieces(body: bytes, bar: Bar) -> Iterator[bytes]:
    view = memoryview(body)
    for start in range(0, len(body), PIECE):
        bar.show(start)
        yield view[start : start + PIECE]  # type: ignore[misc]  # a view is sent without a copy
    bar.erase()
