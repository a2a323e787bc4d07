"""Opens a resource on first use, since most models never need it."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OnDemand(Generic[T]):
    """Opened in a thread by the first request that needs it, and kept. Used from one event loop.

    Args of the constructor:
        opens: blocking. `get` raises its exceptions, and the next `get` tries again.
        closes: called by `close` with the opened resource.
    """

    def __init__(self, opens: Callable[[], T], closes: Callable[[T], object]) -> None:
        self._opens = opens
        self._closes = closes
        self._opened: asyncio.Future[T] | None = None

    async def get(self) -> T:
        """Give the resource; requests that come while it opens wait for it too."""
        if self._opened is None:
            self._opened = asyncio.ensure_future(asyncio.to_thread(self._opens))
        opened = self._opened
        try:
            # Shielded: a client that disconnects must not cancel it for the others that wait.
            return await asyncio.shield(opened)
        except Exception:
            if self._opened is opened:  # else another request tries again already
                self._opened = None
            raise

    def close(self) -> None:
        """Close the resource, if it was opened."""
        opened, self._opened = self._opened, None
        if opened:
            opened.add_done_callback(self._closed) if not opened.done() else self._closed(opened)

    def _closed(self, opened: "asyncio.Future[T]") -> None:
        if not opened.cancelled() and not opened.exception():
            self._closes(opened.result())
