"""What a command that asks a server ends with: its exit code, and the text of each failure."""

from typing import Final

REFUSED: Final = 1
"""The server says no, or what was asked for is not so: a model that does not serve, for example."""
USAGE: Final = 2
"""A wrong command line, or a file that cannot be used; as argparse's own."""
UNREACHABLE: Final = 3
"""No answer: nobody listens, TLS fails, time is over, or it is no server of this API."""
TIME_IS_UP: Final = 4
"""What `--wait` waits for has not come in time."""


class Failure(Exception):
    """Ends a command; its text says what was wrong, what was expected and what to do.

    Attributes:
        code: exit code of the process.
    """

    code = REFUSED


class Refused(Failure):
    """The server has answered with an error.

    Attributes:
        status: its HTTP status; 0 over gRPC.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Misused(Failure):
    """The command line, or a file that it names, cannot be used."""

    code = USAGE


class Unreachable(Failure):
    """There is no answer."""

    code = UNREACHABLE


class TimeIsUp(Failure):
    """It was waited for in vain."""

    code = TIME_IS_UP
