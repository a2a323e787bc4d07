"""Listings that clients ask for: of each model one at a time, and a pause after each.

A store charges for each listing, and whoever reaches the REST port may ask for one. Who asks while
one runs, or too soon after it, waits for the next together with all others who do: so each of them
gets a listing that began after the request came, which sees what was uploaded before.
"""

import asyncio
from collections.abc import Awaitable, Callable

from ie_serving.core.values.errors import NotFound

PAUSE_S = 1.0
"""Seconds between the end of a listing and the next one of the same model, as with the shortest
poll interval that is usual."""

Poll = Callable[[str], Awaitable[None]]
"""Lists a model's repository once. Raises ServingError."""
Turn = asyncio.Future[None]
"""One listing, for all who wait for it."""


class PollRequests:
    """Lives on one event loop.

    Args of the constructor:
        poll: makes a listing of one model.
        pause_s: seconds after a listing before the next one of that model.
    """

    def __init__(self, poll: Poll, pause_s: float = PAUSE_S) -> None:
        self._poll = poll
        self._pause_s = pause_s
        # By model that is being listed, or was just now: the listing after that; None when nobody
        # has asked for one.
        self._next: dict[str, Turn | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def once(self, model: str) -> None:
        """List as soon as that may be; return when it is done.

        Raises:
            NotFound: no such model.
            StorageError: the listing failed.
        """
        turn = self._next.get(model)
        if turn is None:
            turn = asyncio.get_running_loop().create_future()
            if model in self._next:
                self._next[model] = turn
            else:
                self._begin(model, turn)
        # Shielded: others may wait for what a cancelled request has asked for.
        await asyncio.shield(turn)

    def _begin(self, model: str, turn: Turn) -> None:
        self._next[model] = None
        # The loop holds tasks by weak references alone.
        task = asyncio.create_task(self._run(model, turn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, model: str, turn: Turn) -> None:
        pause_s = self._pause_s
        try:
            await self._poll(model)
        except Exception as error:
            turn.set_exception(error)
            turn.exception()  # it is known, though nobody may wait for it any more
            if isinstance(error, NotFound):  # nothing was listed
                pause_s = 0
        else:
            turn.set_result(None)
        asyncio.get_running_loop().call_later(pause_s, self._go_on, model)

    def _go_on(self, model: str) -> None:
        turn = self._next.pop(model)
        if turn is not None:
            self._begin(model, turn)
