"""Successors: models that load in order to replace the serving models of the same names."""

import asyncio
from collections.abc import Callable, Mapping

from ie_serving.models.served import Served


class Successors:
    """Lives on one event loop.

    Args of the constructor:
        take_over: told of each successor in the step in which it serves.
        on_failed: told of each that cannot serve yet, with the cause, at each of its changes.
    """

    def __init__(
        self, take_over: Callable[[Served], None], on_failed: Callable[[Served, str], None]
    ) -> None:
        self._take_over = take_over
        self._on_failed = on_failed
        self._waiting: dict[str, tuple[Served, asyncio.Task[None]]] = {}

    @property
    def entries(self) -> Mapping[str, Served]:
        """Those that do not serve yet, by name."""
        return {name: successor for name, (successor, _) in self._waiting.items()}

    def add(self, successor: Served) -> None:
        """Let a model take over once it serves; none of its name may wait already."""
        task = asyncio.create_task(self._wait(successor))
        self._waiting[successor.config.name] = successor, task

    def give_up(self) -> Mapping[str, Served]:
        """Let none of them take over any more, and give them by name."""
        given_up = self.entries
        for _, task in self._waiting.values():
            task.cancel()
        self._waiting = {}
        return given_up

    async def _wait(self, successor: Served) -> None:
        while not successor.stream.answerable:
            if cause := successor.stream.why_none:
                self._on_failed(successor, cause)
            await successor.stream.changed()
        # Both in one step, without an await: a request in between would find neither or both.
        del self._waiting[successor.config.name]
        self._take_over(successor)
