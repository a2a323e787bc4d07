"""What a worker leaves to the one that replaces it: a few kilobytes that outlive its process.

The arbiter makes the files before it forks and holds them open, so every worker inherits them and
nothing is left behind when the server ends. Two files take turns: a worker that is killed while it
writes one leaves the other whole.
"""

import hashlib
import os
import tempfile
from typing import NamedTuple, Protocol

_DIGEST_BYTES = hashlib.sha256().digest_size
_TURN_BYTES = 8
"""Bytes of the number that says which of the two files was written last. It never wraps round."""


class Handover:
    """The last bytes that a worker has written."""

    def __init__(self) -> None:
        self._files = (nameless(), nameless())
        self._turn = 0

    def write(self, data: bytes) -> None:
        """Replace what was written before.

        Raises:
            OSError: there is no memory or no disk for it; what was written before stays.
        """
        self._turn += 1
        body = self._turn.to_bytes(_TURN_BYTES, "big") + data
        file = self._files[self._turn % 2]
        os.ftruncate(file, 0)
        os.pwrite(file, hashlib.sha256(body).digest() + body, 0)

    def read(self) -> bytes:
        """Give what was written last; empty in the first worker of a server."""
        newest = max(map(_whole, self._files))
        # A replacement is a copy of the arbiter, which has not counted.
        self._turn = max(self._turn, int.from_bytes(newest[:_TURN_BYTES], "big"))
        return newest[_TURN_BYTES:]

    def clear(self) -> None:
        """Forget what was written."""
        for file in self._files:
            os.ftruncate(file, 0)

    def close(self) -> None:
        """Give the files back; called once, by a process that reads and writes no more."""
        for file in self._files:
            os.close(file)


class Left(Protocol):
    """What a worker leaves; `Handover` is one."""

    def read(self) -> bytes:
        """See `Handover`."""

    def write(self, data: bytes, /) -> None:
        """See `Handover`."""

    def clear(self) -> None:
        """See `Handover`."""


class Handovers(NamedTuple):
    """What workers leave to those that replace them.

    Attributes:
        configuration: how far the configuration has come.
        answering: which versions answer.
        callers: who may do what.
        certificates: what the ports prove themselves with.
    """

    configuration: Left
    answering: Left
    callers: Left
    certificates: Left

    def clear(self) -> None:
        """Forget what was written."""
        for each in self:
            each.clear()


def nameless() -> int:
    """Open a file without a name: in memory where the system has that, else in the temp folder."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("handover")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _whole(file: int) -> bytes:
    """Read turn and data of a file; empty when it was not written to its end."""
    content = os.pread(file, os.fstat(file).st_size, 0)
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return body if body and hashlib.sha256(body).digest() == digest else b""
