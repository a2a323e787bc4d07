"""The id by which a request is found again: the client's own where it is safe to log, else made.

Source: `X-Request-Id` is what Envoy, nginx and Heroku call the header.
"""

import itertools
import re
import secrets
from collections.abc import Iterator
from typing import Final

HEADER: Final = "x-request-id"
"""Over REST a header, over gRPC metadata."""
LONGEST: Final = 128
"""Characters of an id that is taken."""

# Printable ASCII without blanks, quotes and backslashes: it is written to logs and sent back.
_SAFE = re.compile(rf"[!#-&(-\[\]-~]{{1,{LONGEST}}}")


def made_ids() -> Iterator[str]:
    """Give ids that no other process gives: a random beginning, and a number.

    Called in the worker: what is made before the fork would be the same in each.
    """
    # Random once, then counted: to ask the system for bytes costs a system call for each id.
    return map(f"{secrets.token_hex(8)}%012x".__mod__, itertools.count(1))


def safe(given: str | bytes) -> str:
    """Give the id that a client has sent where it is safe to log; else an empty one."""
    text = given.decode("latin-1") if isinstance(given, bytes) else given
    return text if _SAFE.fullmatch(text) else ""
