"""`/v1/log_level`: the least severe lines that are logged, and another level from now on.

As `/v2/logging` of Triton and `/logging` of Envoy, which change it while they serve as well.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ie_serving.core.values.errors import ConfigError, Forbidden, InvalidRequest
from ie_serving.core.values.hints import Hint
from ie_serving.telemetry.log import logs

LOG_LEVEL: Final = "/v1/log_level"
_KEY: Final = "log_level"

Parse = Callable[[object, str], str]
"""Reads the word of a level, and gives the level. Raises ConfigError."""


Set = Callable[[str], None]
"""Logs from a level on, in this process."""
Everywhere = Callable[[Set], Callable[[str], Awaitable[None]]]
"""Gives what does it in all processes that answer as this server."""


def here(own: Set) -> Callable[[str], Awaitable[None]]:
    """Do it in this process: there is no other one."""

    async def change(level: str) -> None:
        own(level)

    return change


class LogPages:
    """Answers both.

    Args of the constructor:
        parse: see `Parse`.
        unbind: called after a change: whether its requests are logged is bound to a version.
        allowed: whether clients may change it.
        everywhere: see `Everywhere`.
    """

    def __init__(
        self,
        parse: Parse,
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
        """Log from the level of a body on; give it.

        Raises:
            Forbidden: changes by request are switched off.
            InvalidRequest: the body is not what it should be.
        """
        if not self._allowed:
            raise Forbidden(
                "changes of the log level by request are switched off: restart with another one",
                Hint(", or let clients change it with {server.reload_by_rpc}"),
            )
        await self._change(self._read(body))
        return self.show()

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
