"""Failures of the commands that ask a server, each with its exit code."""

from typing import Final

REFUSED: Final = 1
"""The server refuses, or a condition does not hold: a model does not serve, for example."""
USAGE: Final = 2
"""A wrong command line, or a file that cannot be used; the same code as argparse's."""
UNREACHABLE: Final = 3
"""No answer: the port is closed, TLS fails, time runs out, or the server has another API."""
TIME_IS_UP: Final = 4
"""The condition of `--wait` was not met in time."""


class CommandFailure(Exception):
    """Ends a command; its text says what was wrong, what was expected and what to do.

    Attributes:
        code: exit code of the process.
    """

    code = REFUSED


class ServerRefused(CommandFailure):
    """The server has answered with an error.

    Attributes:
        status: HTTP status of the reply; 0 over gRPC.
        rpc_code: name of the RPC's status code; empty over REST.
        lacks_route: whether the text is TensorFlow Serving's for a route that it does not have.
        wants_tls: whether the port is encrypted and the request was not.
    """

    def __init__(
        self,
        text: str,
        status: int = 0,
        *,
        rpc_code: str = "",
        lacks_route: bool = False,
        wants_tls: bool = False,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.rpc_code = rpc_code
        self.lacks_route = lacks_route
        self.wants_tls = wants_tls


class CommandMisused(CommandFailure):
    """The command line, or a file that it names, cannot be used."""

    code = USAGE


class ServerSilent(CommandFailure):
    """There is no reply."""

    code = UNREACHABLE


class TimeLimitReached(CommandFailure):
    """The condition of `--wait` was not met in time."""

    code = TIME_IS_UP
