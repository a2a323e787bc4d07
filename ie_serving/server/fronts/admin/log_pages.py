"""`/v1/log_level`: shows the level from which lines are logged, and changes it.

Triton's `/v2/logging` and Envoy's `/logging` change their level at run time as well.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ie_serving.core.values.errors import ConfigError, Forbidden, InvalidRequest
from ie_serving.core.values.hints import Hint
from ie_serving.telemetry.log import logs

LOG_LEVEL: Final = "/v1/log_level"
_KEY: Final = "log_level"

ParseValue = Callable[[object, str], str]
"""Parses the name of a level; returns the level. Raises ConfigError."""

Set = Callable[[str], None]
"""Sets the log level of this process."""
Everywhere = Callable[[Set], Callable[[str], Awaitable[None]]]
"""Returns a function that sets the level in all worker processes of this server."""


def here(own: Set) -> Callable[[str], Awaitable[None]]:
    """Return a function that sets the level in this process, the only worker."""

    async def change(level: str) -> None:
        own(level)

    return change


class LogPages:
    """Answers the requests to `/v1/log_level`.

    Args of the constructor:
        parse: function that parses a value, a `ParseValue`.
        unbind: called after a change, since each version has stored whether it logs requests.
        allowed: whether clients may change the level.
        everywhere: setter of the level in all workers, an `Everywhere`.
    """

    def __init__(
        self,
        parse: ParseValue,
        unbind: Callable[[], None],
        *,
        allowed: bool,
        everywhere: Everywhere = here,
    ) -> None:
        self._change = everywhere(self._set)
        self._parse = parse
        self._unbind = unbind
        self._allowed = allowed

    def show(self) -> bytes:
        """Show the level."""
        return json.dumps({_KEY: logs.level()}).encode()

    async def change(self, _: str, body: bytes) -> bytes:
        """Set the level that a body names; return it.

        Raises:
            Forbidden: changes by request are switched off.
            InvalidRequest: the body does not have the expected form.
        """
        level = self._read(body)
        await self.set_level(level)
        return self.show()

    async def set_level(self, level: str) -> None:
        """Set the level in all workers. Raises: Forbidden, if clients may not."""
        if not self._allowed:
            raise Forbidden(
                "changes of the log level by request are switched off: restart with another one",
                Hint(", or let clients change it with {server.reload_by_rpc}"),
            )
        await self._change(level)

    def _set(self, level: str) -> None:
        logs.change(level)
        self._unbind()

    def _read(self, body: bytes) -> str:
        try:
            given: Any = json.loads(body)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict) or given.keys() != {_KEY}:
            raise InvalidRequest(f'the body has to be an object such as {{"{_KEY}": "DEBUG"}}')
        try:
            return self._parse(given[_KEY], _KEY)
        except ConfigError as error:
            raise InvalidRequest(str(error)) from None
