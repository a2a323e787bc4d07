"""What is opened when it is first asked for: most models never need it."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OnDemand(Generic[T]):
    """Opened in a thread by the first request that needs it, and kept. Used from one event loop.

    Args of the constructor:
        opens: blocking. What it raises is raised by `get`, and the next `get` tries again.
        closes: called by `close` with what was opened.
    """

    def __init__(self, opens: Callable[[], T], closes: Callable[[T], object]) -> None:
        self._opens = opens
        self._closes = closes
        self._opened: asyncio.Future[T] | None = None

    async def get(self) -> T:
        """Give what is opened; requests that come meanwhile wait for the same."""
        if self._opened is None:
            self._opened = asyncio.ensure_future(asyncio.to_thread(self._opens))
        opened = self._opened
        try:
            # Shielded: one client that leaves must not take it from those who wait as well.
            return await asyncio.shield(opened)
        except Exception:
            self._opened = None
            raise

    def close(self) -> None:
        """Close what was opened, if anything was."""
        opened, self._opened = self._opened, None
        if opened and opened.done() and not opened.cancelled() and not opened.exception():
            self._closes(opened.result())
