"""Listings at a client's request: one at a time for each model, with a pause after each.

A store charges for each listing, and every client of the REST port may request one. Requests that
come during a listing, or too soon after it, share the next listing: so each request gets a listing
that began after it came, and therefore sees everything uploaded before the request.
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
        # Models being listed, or in the pause after it: the next listing, None when no request
        # waits for one.
        self._next: dict[str, Turn | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def once(self, model: str) -> None:
        """List the repository as soon as the pause allows; return when the listing is done.

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
        # Shielded: other requests may wait for the listing that a cancelled request started.
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
            turn.exception()  # marked as retrieved: every request may have been cancelled
            if isinstance(error, NotFound):  # nothing was listed
                pause_s = 0
        else:
            turn.set_result(None)
        asyncio.get_running_loop().call_later(pause_s, self._go_on, model)

    def _go_on(self, model: str) -> None:
        turn = self._next.pop(model)
        if turn is not None:
            self._begin(model, turn)
