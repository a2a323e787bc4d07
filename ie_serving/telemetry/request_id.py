"""The id by which a request is found again: the client's own where it is safe to log, else made.

Source: `X-Request-Id` is what Envoy, nginx and Heroku call the header.
"""

import itertools
import re
import secrets
from typing import Final

HEADER: Final = "x-request-id"
"""Over REST a header, over gRPC metadata."""
LONGEST: Final = 128
"""Characters of an id that is taken."""

# Printable ASCII without blanks, quotes and backslashes: it is written to logs and sent back.
_SAFE = re.compile(rf"[!#-&(-\[\]-~]{{1,{LONGEST}}}")


class RequestIds:
    """Gives ids that no other process gives: a random beginning, and a number.

    Made in the worker: what is made before the fork would be the same in each.
    """

    def __init__(self) -> None:
        # Random once, then counted: to ask the system for bytes costs a system call for each id.
        self._beginning = secrets.token_hex(8)
        self._numbers = itertools.count(1)

    def of(self, given: str | bytes | None) -> str:
        """Give the id that a client has sent, or a new one where it has sent none that is safe."""
        if given and (taken := safe(given)):
            return taken
        return f"{self._beginning}{next(self._numbers):012x}"


def safe(given: str | bytes) -> str:
    """Give the id that a client has sent where it is safe to log; else an empty one."""
    text = given.decode("latin-1") if isinstance(given, bytes) else given
    return text if _SAFE.fullmatch(text) else ""
