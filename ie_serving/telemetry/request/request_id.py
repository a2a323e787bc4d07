"""Request ids: the client's own if it is safe to log, otherwise a new one.

Source: Envoy, nginx and Heroku call the header `X-Request-Id`.
"""

import itertools
import re
import secrets
from collections.abc import Iterator
from functools import cache
from typing import Final

HEADER: Final = "x-request-id"
"""A header over REST, metadata over gRPC."""
LONGEST_ID: Final = 128
"""Most characters of an accepted id; a longer one is ignored."""

# Printable ASCII without blanks, quotes and backslashes: ids are logged and sent back.
_SAFE = re.compile(rb"[!#-&(-\[\]-~]{1,%d}" % LONGEST_ID)


@cache
def made_ids() -> Iterator[bytes]:
    """Return an iterator of ids that no other process makes: a random beginning, and a number.

    For all threads of a process. First called in the worker: made before the fork, they would be
    the same in each worker.
    """
    # Random once, then counted: random bytes for each id would cost a system call.
    return map(f"{secrets.token_hex(8)}%012x".encode().__mod__, itertools.count(1))


def safe(given: bytes) -> bytes:
    """Return the id that a client has sent if it is safe to log; else an empty one."""
    return given if _SAFE.fullmatch(given) else b""
