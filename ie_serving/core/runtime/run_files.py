"""Files by which commands find the servers that their user runs on this machine.

A server notes the addresses of its ports when these are bound, and removes the note at its end:

    $XDG_RUNTIME_DIR/ie_serving/PID.json    {"started": ..., "rest": URL, "grpc": URL}
    /tmp/ie_serving-run-UID/PID.json        where that variable is not set

Only directories and files of this user count, and links never do, so another user cannot send a
command, which may carry a key, to a server of their own. A note whose process has ended, or has a
number that another process got, is passed over. A server that cannot write its note, as in a
container with a read-only file system, is found by its address alone.
"""

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

_MOST_BYTES: Final = 4096
"""Bytes of a note; the addresses of two ports take 100."""


class RunningServer(NamedTuple):
    """A server that runs.

    Attributes:
        pid: process id of its arbiter.
        rest, grpc: URLs of its ports; empty for a port that is off.
    """

    pid: int
    rest: str
    grpc: str


class RunFile:
    """The note of one server. Never raises: it serves as well without.

    Args of the constructor:
        environ: environment variables of the process.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._pid = os.getpid()
        self._directory = directories(environ)[0]
        self._path = os.path.join(self._directory, f"{self._pid}.json")

    def write(self, rest: str, grpc: str) -> None:
        """Note the addresses; remove notes of servers that were killed."""
        with suppress(OSError):  # also where there is no /proc
            note = {"started": _started(self._pid), "rest": rest, "grpc": grpc}
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            if not _is_own(self._directory):
                return
            for name in os.listdir(self._directory):
                path = os.path.join(self._directory, name)
                if name.endswith(".json") and _read(path) is None:
                    os.unlink(path)
            # Whole at once: a server that starts meanwhile would remove a part of a note.
            new = f"{self._path}.new"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            with open(os.open(new, flags, 0o600), "w") as file:
                json.dump(note, file)
            os.rename(new, self._path)

    def remove(self) -> None:
        """Remove it, at the end of the server."""
        with suppress(OSError):
            if os.getpid() == self._pid and _is_own(self._directory):  # not in a child that fails
                os.unlink(self._path)


def running(environ: Mapping[str, str]) -> list[RunningServer]:
    """Give the servers of this user that run, by their process ids."""
    found: dict[int, RunningServer] = {}
    for directory in directories(environ):
        with suppress(OSError):
            names = os.listdir(directory) if _is_own(directory) else []
            notes = (_read(os.path.join(directory, name)) for name in names)
            found |= {note.pid: note for note in notes if note}
    return [found[pid] for pid in sorted(found)]


def directories(environ: Mapping[str, str]) -> list[str]:
    """Name the directories of notes; the first is that of a server with this environment.

    A service has no XDG_RUNTIME_DIR, and the terminal of the same user has.
    """
    user = os.geteuid()
    shared = f"/tmp/ie_serving-run-{user}"
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return [os.path.join(runtime, "ie_serving"), shared] if runtime.startswith("/") else [shared]


def _is_own(directory: str) -> bool:
    """Tell whether it is a directory of this user that no other user may write to, and no link."""
    status = os.lstat(directory)
    is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return stat.S_ISDIR(status.st_mode) and is_private


def _read(path: str) -> RunningServer | None:
    """Read a note; None for one of a server that has ended, and for what is no note."""
    try:
        pid = int(os.path.basename(path).removesuffix(".json"))
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(file, "rb") as opened:
            if os.fstat(file).st_uid != os.geteuid():
                return None
            note = json.loads(opened.read(_MOST_BYTES))
        is_alive = note["started"] == _started(pid)
        return RunningServer(pid, str(note["rest"]), str(note["grpc"])) if is_alive else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _started(pid: int) -> str:
    """Give the start of a process in ticks since the machine's: numbers of processes come again.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        # After the name, which is in brackets and may have any characters, the 20th word.
        return file.read().rpartition(b")")[2].split()[19].decode()
