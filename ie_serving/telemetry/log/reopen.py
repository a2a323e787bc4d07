"""Reopens log files on SIGUSR1.

A file that was moved away is reopened anyway with the next line. SIGUSR1 closes it at once,
so that the rotating program may compress or remove it.
"""

import weakref
from typing import Protocol


class Reopened(Protocol):
    """An object that writes to a file."""

    def reopen(self) -> None:
        """Reopen the file if it was moved away. Never raises."""


# Weak references: `logs.configure` drops the files of an earlier call without unregistering them.
_opened: "weakref.WeakSet[Reopened]" = weakref.WeakSet()


def register(file: Reopened) -> None:
    """Make `reopen` include `file`, as long as the object exists."""
    _opened.add(file)


def reopen() -> None:
    """Reopen all files. Never raises."""
    for file in list(_opened):
        file.reopen()
