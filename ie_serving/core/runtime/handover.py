"""State that a worker leaves to its replacement: a few kilobytes that outlive the process.

The arbiter opens the files before it forks, so every worker inherits them and nothing is left
behind when the server ends. Writes alternate between two files: if a worker is killed while it
writes one, the other is intact.
"""

import hashlib
import os
import tempfile
from typing import NamedTuple, Protocol

_DIGEST_BYTES = hashlib.sha256().digest_size
_TURN_BYTES = 8
"""Bytes of the number that says which of the two files is newer. It never overflows."""


class Handover:
    """Stores the last bytes that a worker has written."""

    def __init__(self) -> None:
        self._files = (nameless(), nameless())
        self._turn = 0

    def write(self, data: bytes) -> None:
        """Replace the previous bytes.

        Raises:
            OSError: memory or disk is full; the previous bytes stay.
        """
        self._turn += 1
        body = self._turn.to_bytes(_TURN_BYTES, "big") + data
        file = self._files[self._turn % 2]
        os.ftruncate(file, 0)
        os.pwrite(file, hashlib.sha256(body).digest() + body, 0)

    def read(self) -> bytes:
        """Return the bytes written last; empty in the first worker of a server."""
        newest = max(map(_completed_data, self._files))
        # A replacement is a fork of the arbiter, whose count is behind the ended worker's.
        self._turn = max(self._turn, int.from_bytes(newest[:_TURN_BYTES], "big"))
        return newest[_TURN_BYTES:]

    def clear(self) -> None:
        """Discard the stored bytes."""
        for file in self._files:
            os.ftruncate(file, 0)

    def close(self) -> None:
        """Close the files; called once, by a process that reads and writes no more."""
        for file in self._files:
            os.close(file)


class HandoverStore(Protocol):
    """Stores the state of a worker for its replacement; `Handover` is one."""

    def read(self) -> bytes:
        """See `Handover`."""

    def write(self, data: bytes, /) -> None:
        """See `Handover`."""

    def clear(self) -> None:
        """See `Handover`."""


class Handovers(NamedTuple):
    """The handovers between a worker and its replacement.

    Attributes:
        configuration: the configuration that was applied last.
        answering: the versions that serve.
        callers: callers and their rights.
        certificates: TLS certificates of the ports.
    """

    configuration: HandoverStore
    answering: HandoverStore
    callers: HandoverStore
    certificates: HandoverStore

    def clear(self) -> None:
        """Discard all stored bytes."""
        for each in self:
            each.clear()


def nameless() -> int:
    """Open a file without a name: in memory if the system can do that, else in the temp folder."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("handover")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _completed_data(file: int) -> bytes:
    """Read turn and data of a file; empty if its last write was not completed."""
    content = os.pread(file, os.fstat(file).st_size, 0)
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return body if body and hashlib.sha256(body).digest() == digest else b""
