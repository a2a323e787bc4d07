"""Temporary directories of this process: each goes with its owner, and all with the process.

A worker ends without Python's own end, and a load under way cannot be cancelled: what its `with`
would have removed, `remove_all` does.
"""

import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Final

PREFIX: Final = "ie_serving-"
LOCK_S: Final = 0.5
"""Seconds that the end of the process waits for another thread that adds a directory."""


class Scratch:
    """A temporary directory, which is made when it is first asked for. A context manager.

    Args of the constructor:
        prefix: of its name.
        path: the whole name, where another process removes the directory as well.

    Attributes:
        path: where it is, or would be.
    """

    def __init__(self, prefix: str = PREFIX, path: Path | None = None) -> None:
        self.path = path or Path(tempfile.gettempdir(), f"{prefix}{os.urandom(8).hex()}")
        self._is_made = False
        # Also where the owner is forgotten without `close`.
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        with _lock:
            _ALL.add(self)

    def made(self) -> Path:
        """Give the directory. Raises: OSError."""
        if not self._is_made:
            # Not where it exists: a stranger who made it could replace what lies in it.
            self.path.mkdir(mode=0o700)
            self._is_made = True
        return self.path

    def __enter__(self) -> Path:
        return self.made()

    def __exit__(self, *_: object) -> None:
        self.close()

    def empty(self) -> None:
        """Remove it now; whoever has its path may make it again."""
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Remove it with all that lies in it; what cannot be removed stays."""
        self._remove()


_ALL: "weakref.WeakSet[Scratch]" = weakref.WeakSet()
_lock = threading.Lock()
"""Of `_ALL`, which may not grow while it is read."""


def remove_all() -> None:
    """Remove every one that is left: the process ends now. In any thread."""
    # Not for ever: a signal may have come while this very thread held it.
    held = _lock.acquire(timeout=LOCK_S)
    try:
        left = list(_ALL)
    except RuntimeError:  # it grew meanwhile
        left = []
    finally:
        if held:
            _lock.release()
    for each in left:
        each.close()
