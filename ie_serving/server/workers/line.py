"""A conversation between two workers over a socket that only they have: values, one by one.

Whoever asks makes a pair of sockets and sends one of them to the other's mailbox. The system closes
it when that worker dies, so that nobody waits for a dead one.
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
"""Of one value: far more than the metrics of thousands of models take."""
LOOK_S: Final = 1.0
"""Seconds between two looks at whether the other worker lives."""

Alive = Callable[[], None]
"""Raises what ends the wait for a worker that hangs."""


class Gone(NotAvailable):
    """The other worker has ended the line, or has died, or takes too long."""


class Silent(NotAvailable):
    """The other worker is there, and its event loop does not turn: it is stopped, or hangs."""


class Line:
    """One end of a conversation. Lives on one event loop.

    Args of the constructor:
        end: of a pair of sockets; it belongs to the line from now on.
        other: names the other worker in errors.
        alive: asked while the other is waited for.
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
        """Make one; see the class."""
        end.setblocking(False)
        try:
            streams = await asyncio.open_unix_connection(sock=end)
        except BaseException:  # cancellation too: nobody else knows of the socket
            end.close()
            raise
        return cls(streams, other, alive)

    def tell(self, value: Any) -> None:  # noqa: ANN401 (whatever pickle takes)
        """Send a value; at once, and whether or not the other still listens."""
        # Not JSON: configurations are objects of many classes, and both ends are the same program.
        body = pickle.dumps(value)
        if not self._writer.is_closing():
            self._writer.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)

    async def hear(self, limit_s: float) -> Any:  # noqa: ANN401
        """Wait for the next value.

        Raises:
            Gone: there is none, and will be none, or none within `limit_s` seconds.
            Silent: the other worker shows no sign of life.
            ServingError: the other worker has told an error.
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
        """Tell an error."""
        self.tell(_Told(error))

    def close(self) -> None:
        """End the conversation."""
        self._writer.close()


def _look_at(coming: "asyncio.Future[Any]") -> None:
    """Have asyncio not complain of an end of the line that came when nobody waited any more."""
    if not coming.cancelled():
        coming.exception()


class _Told:
    """An error on its way; what is no ServingError arrives as one, with its class in its text."""

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
