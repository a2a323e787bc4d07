"""A line: a conversation between two workers over a private socket pair, value by value.

The asking worker creates the pair and sends one end to the other's mailbox. When a worker dies, the
system closes its end, so that the other one does not wait for it.
"""

import asyncio
import pickle
import socket
from collections.abc import Callable
from typing import Any, Final

from ie_serving.core.values import errors
from ie_serving.core.values.errors import ConfigError, NotAvailable, ServingError

_LENGTH_BYTES: Final = 8
_MOST_BYTES: Final = 1 << 30
"""Most bytes of one value: far more than the metrics of thousands of models take."""
LOOK_S: Final = 1.0
"""Seconds between two checks that the other worker lives."""

Alive = Callable[[], None]
"""Raises an error to end the wait for a worker that hangs."""


class Gone(NotAvailable):
    """The other worker has closed the line, has died, or takes too long."""


class Silent(NotAvailable):
    """The other worker exists, but its event loop does not run: it is stopped, or hangs."""


class Line:
    """One end of a conversation. Lives on one event loop.

    Args of the constructor:
        end: one of a pair of sockets; the line owns it from now on.
        other: name of the other worker in errors.
        alive: called while the line waits for the other worker.
    """

    def __init__(
        self,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        other: str,
        alive: Alive | None,
    ) -> None:
        self._reader, self._writer = streams
        self._other = other
        self._alive = alive

    @classmethod
    async def over(
        cls, end: socket.socket, other: str = "another worker", alive: Alive | None = None
    ) -> "Line":
        """Make a line; for the arguments see the class."""
        end.setblocking(False)
        try:
            streams = await asyncio.open_unix_connection(sock=end)
        except BaseException:  # also cancellation: only this frame refers to the socket
            end.close()
            raise
        return cls(streams, other, alive)

    def tell(self, value: Any) -> None:  # noqa: ANN401 (whatever pickle takes)
        """Send a value at once, whether or not the other worker still listens."""
        # Not JSON: configurations are objects of many classes, and both ends run one program.
        body = pickle.dumps(value)
        if not self._writer.is_closing():
            self._writer.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)

    async def hear(self, limit_s: float) -> Any:  # noqa: ANN401
        """Wait for the next value.

        Raises:
            Gone: the line has ended, or no value comes within `limit_s` seconds.
            Silent: the other worker's event loop does not run.
            ServingError: the other worker has sent an error.
        """
        try:
            value = await asyncio.wait_for(self._next_of_living(), limit_s)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            why = "did not answer in time" if isinstance(error, asyncio.TimeoutError) else "ended"
            raise Gone(f"{self._other} {why}") from error
        if isinstance(value, _Told):
            raise value.error()
        return value

    async def _next_of_living(self) -> Any:  # noqa: ANN401
        if self._alive is None:
            return await self._next()
        coming = asyncio.ensure_future(self._next())
        try:
            while not coming.done():
                self._alive()
                await asyncio.wait((coming,), timeout=LOOK_S)
            return coming.result()
        finally:
            coming.cancel()
            coming.add_done_callback(_look_at)

    async def _next(self) -> Any:  # noqa: ANN401
        length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
        if length > _MOST_BYTES:
            raise EOFError
        return pickle.loads(await self._reader.readexactly(length))

    def fail(self, error: Exception) -> None:
        """Send an error."""
        self.tell(_Told(error))

    def close(self) -> None:
        """End the conversation."""
        self._writer.close()


def _look_at(coming: "asyncio.Future[Any]") -> None:
    """Retrieve the error of a line that ended after the last wait, so that asyncio logs none."""
    if not coming.cancelled():
        coming.exception()


class _Told:
    """An error in transit; any but a ServingError arrives as one that has its class in its text."""

    def __init__(self, error: Exception) -> None:
        self.kind = type(error).__name__
        self.faults = tuple(error.faults) if isinstance(error, ConfigError) else ()
        self.text = str(error)

    def error(self) -> ServingError:
        found = getattr(errors, self.kind, None)
        if found is ConfigError:
            return ConfigError(self.faults)
        if isinstance(found, type) and issubclass(found, ServingError):
            error = found.__new__(found)
            error.args = (self.text,)
            return error
        return ServingError(f"{self.kind}: {self.text}")
