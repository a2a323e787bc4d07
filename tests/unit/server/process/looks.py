"""What a server does now and then, each time that a test says so."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

PATIENCE_S = 20.0


class Paced:
    """Runs what looks again after each pause; a pause ends with `look`.

    Args of the constructor:
        looking: makes the coroutine from the pause that it awaits.
    """

    def __init__(
        self, looking: Callable[[Callable[[], Awaitable[None]]], Coroutine[Any, Any, None]]
    ) -> None:
        self._looked = False
        self._looks: asyncio.Queue[None] = asyncio.Queue()
        self._task = asyncio.create_task(looking(self._pause))

    async def look(self) -> None:
        """Return when the server has looked, and done what follows."""
        self._looks.put_nowait(None)
        await asyncio.wait_for(self._looks.join(), PATIENCE_S)

    def end(self) -> None:
        self._task.cancel()

    async def _pause(self) -> None:
        if self._looked:
            self._looks.task_done()
        self._looked = True
        await self._looks.get()
