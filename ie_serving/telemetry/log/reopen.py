"""Log files that are opened anew when the process is told to, by SIGUSR1.

A file that was moved away is opened anew by itself with the next line. This lets go of it at once,
so that whoever rotates it may compress or remove it.
"""

import weakref
from typing import Protocol


class Reopened(Protocol):
    """Something with a file."""

    def reopen(self) -> None:
        """Open it anew if it was moved away. Never raises."""


# Weakly: `logs.configure` lets go of the files of the call before without telling.
_opened: "weakref.WeakSet[Reopened]" = weakref.WeakSet()


def register(file: Reopened) -> None:
    """Have `file` opened anew by `reopen`, as long as somebody uses it."""
    _opened.add(file)


def reopen() -> None:
    """Open all files anew. Never raises."""
    for file in list(_opened):
        file.reopen()
