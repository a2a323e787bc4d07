"""The id by which a request is found again: the client's own where it is safe to log, else made.

Source: `X-Request-Id` is what Envoy, nginx and Heroku call the header.
"""

import itertools
import re
import secrets
from collections.abc import Iterator
from functools import cache
from typing import Final

HEADER: Final = "x-request-id"
"""Over REST a header, over gRPC metadata."""
LONGEST: Final = 128
"""Characters of an id that is taken."""

# Printable ASCII without blanks, quotes and backslashes: it is written to logs and sent back.
_SAFE = re.compile(rb"[!#-&(-\[\]-~]{1,%d}" % LONGEST)


@cache
def made_ids() -> Iterator[bytes]:
    """Give what makes ids that no other process makes: a random beginning, and a number.

    For every thread of a process. First called in the worker: what is made before the fork would be
    the same in each.
    """
    # Random once, then counted: to ask the system for bytes costs a system call for each id.
    return map(f"{secrets.token_hex(8)}%012x".encode().__mod__, itertools.count(1))


def safe(given: bytes) -> bytes:
    """Give the id that a client has sent where it is safe to log; else an empty one."""
    return given if _SAFE.fullmatch(given) else b""
