"""Sends requests with NaN or infinity to another program, which is opened on first use.

Such a request is a signature's exception, and most models never need the other program.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Arrays

if TYPE_CHECKING:
    from ie_serving.core.values.tensors import Read
    from ie_serving.engines.run.program import RunnableSignature

T = TypeVar("T")


class OnDemandResource(Generic[T]):
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


class NonFiniteInput(Exception):
    """Raised by an infer request's `fill` when the inputs have NaN or positive infinity."""


class Detour:
    """Sends such requests to `other`.

    Args of the constructor:
        names: inputs of floats, which infer requests look at.
        other: computes the signature whatever the floats are.
    """

    def __init__(self, names: Sequence[str], other: "OnDemandResource[RunnableSignature]") -> None:
        self.names = names
        self._other = other

    async def infer(self, inputs: Arrays, read: "Read[T]") -> T:
        """See `CompiledModel.infer`. Raises InvalidTensor where the other program cannot be had."""
        try:
            program = await self._other.get()
        except LoadFailed as error:
            raise InvalidTensor(
                f"one of {', '.join(self.names)} holds NaN or infinity, for which the model is"
                f" compiled a second time, and this failed: {error}"
            ) from error
        return await program.infer(inputs, read)

    def close(self) -> None:
        """Close the other program, if it was ever opened."""
        self._other.close()
