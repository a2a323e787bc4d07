"""Temporary directories of this process: each is removed with its owner, and all at its end.

A worker ends without Python's exit handling, and a running load cannot be cancelled: `remove_all`
removes the directories whose `with` statement did not end.
"""

import os
import shutil
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from ie_serving.core.values.errors import ServingError

PREFIX: Final = "ie_serving-"
LOCK_S: Final = 0.5
"""Seconds that the end of the process waits for another thread that is adding a directory."""

_IN_MEMORY: Final = "/dev/shm"


def choose_directory() -> str:
    """Choose where this process and its children put temporary files: on disk, else in memory.

    Returns:
        The directory in memory; empty where a disk takes them.

    Raises:
        ServingError: memory does not take them either.
    """
    with suppress(FileNotFoundError):
        tempfile.gettempdir()
        return ""
    if not os.access(_IN_MEMORY, os.W_OK):
        raise ServingError(
            "no directory for temporary files: mount a writable /tmp or /dev/shm, or name a"
            " directory by TMPDIR"
        )
    os.environ["TMPDIR"] = _IN_MEMORY
    return _IN_MEMORY


class Scratch:
    """A temporary directory, created at its first use. A context manager.

    Args of the constructor:
        prefix: prefix of its name.
        path: the whole name, if another process removes the directory as well.

    Attributes:
        path: path of the directory, whether it exists or not.
    """

    def __init__(self, prefix: str = PREFIX, path: Path | None = None) -> None:
        self.path = path or Path(tempfile.gettempdir(), f"{prefix}{os.urandom(8).hex()}")
        self._is_made = False
        # The finalizer removes the directory, too, if its owner is freed without `close`.
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        with _lock:
            _ALL.add(self)

    def made(self) -> Path:
        """Create the directory if needed; return it. Raises: OSError."""
        if not self._is_made:
            # Fails if it exists: another user who created it could replace its contents.
            self.path.mkdir(mode=0o700)
            self._is_made = True
        return self.path

    def __enter__(self) -> Path:
        return self.made()

    def __exit__(self, *_: object) -> None:
        self.close()

    def empty(self) -> None:
        """Remove the directory now; code with its path may create it again."""
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Remove the directory and its contents, as far as possible."""
        self._remove()


_ALL: "weakref.WeakSet[Scratch]" = weakref.WeakSet()
_lock = threading.Lock()
"""Protects `_ALL`, which must not change while it is read."""


def remove_all() -> None:
    """Remove all remaining directories at the end of the process. In any thread."""
    # The lock has a time-out: a signal may have come while this same thread held it.
    held = _lock.acquire(timeout=LOCK_S)
    try:
        left = list(_ALL)
    except RuntimeError:  # `_ALL` has changed meanwhile
        left = []
    finally:
        if held:
            _lock.release()
    for each in left:
        each.close()
