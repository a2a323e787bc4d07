"""Starts of child processes: their command line, and their end with the server.

A start takes seconds, longer than a stopping server may take, which no longer needs the process.
"""

import sys
import threading
from typing import TYPE_CHECKING

from ie_serving.core.values.errors import LoadFailed

if TYPE_CHECKING:
    from ie_serving.engines.process.link import Message
    from ie_serving.engines.process.supervision import Supervisor


def command_of(code: str) -> tuple[str, ...]:
    """Give the command line of a Python process that runs `code`.

    With this process's path, the child finds the installed package from any working directory, and
    imports nothing from that directory.
    """
    path = "import sys; sys.path[:] = sys.argv[1].split('\\n');"
    return (sys.executable, "-c", f"{path} {code}", "\n".join(sys.path))


class Starts:
    """The starts of one server. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: list[Supervisor] = []
        self._ended = False

    def run(self, starting: "Supervisor") -> "Message":
        """Start a process, and wait for it.

        Raises:
            LoadFailed: the process cannot be started, or the server ends.
        """
        with self._lock:
            if self._ended:  # a load may get here while the server stops
                raise LoadFailed("the server is being stopped")
            self._under_way.append(starting)
        try:
            return starting.start()
        finally:
            with self._lock:
                self._under_way.remove(starting)

    def end(self) -> None:
        """Cancel the starts in progress, and refuse new ones. Does not wait."""
        with self._lock:
            self._ended = True
            under_way = list(self._under_way)
        for starting in under_way:
            starting.abandon()
