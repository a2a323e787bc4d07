"""Adds a model to the JSON configuration file, or removes one; nothing else in it changes."""

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ie_serving.config.files.json_file import parse_config_file, without_comments
from ie_serving.config.files.source import read_text
from ie_serving.core.settings.structures import json_text
from ie_serving.core.values.errors import ConfigError

LIST = "model_config_list"
READABLE = 0o644
"""Mode of a file that is made: servers run as users of their own."""
PATIENCE_S = 10.0
"""Longest wait in seconds for another edit, which takes milliseconds: a script that edits hangs no
longer than that behind a process that keeps the lock."""
LOOK_S = 0.05
"""Seconds between two looks whether the lock is free."""


def add(path: Path, name: str, base_path: str) -> None:
    """Add a model at the end of the file, which is made where there is none.

    Raises:
        ConfigError: a model has this name already, or the file cannot be read or is broken.
    """
    with _alone(path):
        top = _read(path) if path.exists() else {LIST: []}
        if any(_name(entry) == name for entry in top[LIST]):
            raise ConfigError([f'{path}: has a model "{name}" already; remove it first'])
        top[LIST].append({"config": {"name": name, "base_path": base_path}})
        _write(path, top)


def remove(path: Path, name: str) -> None:
    """Take a model out of the file.

    Raises:
        ConfigError: no model has this name, or the file cannot be read or is broken.
    """
    with _alone(path):
        top = _read(path)
        left = [entry for entry in top[LIST] if _name(entry) != name]
        if len(left) == len(top[LIST]):
            names = ", ".join(sorted(map(_name, left))) or "none"
            raise ConfigError([f'{path}: has no model "{name}"; its models: {names}'])
        _write(path, {**top, LIST: left})


def _name(entry: Any) -> str:  # noqa: ANN401 (an entry that was checked)
    return str(entry["config"]["name"])


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    parse_config_file(text, origin=path.parent, place=str(path))  # raises where it is broken
    if without_comments(text) != text:
        raise ConfigError([f"{path}: has comments, which would be lost; edit it by hand"])
    top: dict[str, Any] = json_text(text, str(path))
    return top


# Two edits at once would both read the old file, and the later one would undo the earlier. The lock
# is the directory's: the file itself is replaced, and its lock would be one of a deleted file.
@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock out other edits in the same directory during the body."""
    with ExitStack() as held:
        try:
            directory = os.open(path.resolve().parent, os.O_RDONLY)
            held.callback(os.close, directory)
            _lock(directory)
        except OSError as error:
            cause = error.strerror or error
            raise ConfigError([f"{path}: its directory cannot be locked: {cause}"]) from error
        yield


def _lock(directory: int) -> None:
    """Take the lock. Raises: OSError, also when another one keeps it for `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"another edit has kept it for {PATIENCE_S:g} s") from None
            time.sleep(LOOK_S)
        else:
            return


def _write(path: Path, top: dict[str, Any]) -> None:
    """Replace the file atomically: a server that watches it never sees a part of it."""
    text = json.dumps(top, indent=4, ensure_ascii=False) + "\n"
    # A name or path that no server takes must not get into the file: one that watches it would go
    # on without the change, and the next one would not start.
    parse_config_file(text, origin=path.parent, place=str(path))
    try:
        _replace(path.resolve(), text)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror or error}"]) from error


def _replace(path: Path, text: str) -> None:
    # Beside the file itself, not beside a link to it: only within a file system is it one step.
    handle, made = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            # Otherwise a machine that loses its power may have the new name with no content.
            os.fsync(handle)
        _as_before(path, made)
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


def _as_before(path: Path, made: str) -> None:
    """Give a new file the mode and owner of the one that it replaces."""
    if not path.exists():
        os.chmod(made, READABLE)
        return
    before = path.stat()
    with suppress(PermissionError):  # only root gives files away
        os.chown(made, before.st_uid, before.st_gid)
    os.chmod(made, before.st_mode)
