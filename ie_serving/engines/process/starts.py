"""Starts of TensorFlow's processes that are under way: they end at once when the server ends.

A start takes seconds, more than the server may take to end, and nobody waits for its result then.
"""

import threading
from typing import Protocol, TypeVar

from ie_serving.core.values.errors import LoadFailed

T_co = TypeVar("T_co", covariant=True)


class Starting(Protocol[T_co]):
    """What is started: a `Supervisor`."""

    def start(self) -> T_co:
        """Start, and wait for it. Raises: LoadFailed."""

    def abandon(self) -> None:
        """Let the start end at once, with LoadFailed. Does not wait."""


class Starts:
    """The starts of one server. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: list[Starting[object]] = []
        self._ended = False

    def run(self, starting: Starting[T_co]) -> T_co:
        """Start, and wait for it.

        Raises:
            LoadFailed: it cannot be started, or the server ends.
        """
        with self._lock:
            if self._ended:  # a load may come to this while the server stops
                raise LoadFailed("the server is being stopped")
            self._under_way.append(starting)
        try:
            return starting.start()
        finally:
            with self._lock:
                self._under_way.remove(starting)

    def end(self) -> None:
        """Let those under way end, and begin none any more. Does not wait."""
        with self._lock:
            self._ended = True
            under_way = list(self._under_way)
        for starting in under_way:
            starting.abandon()
