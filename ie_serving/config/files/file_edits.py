"""Adds a model to a configuration file, or takes one out, while servers may watch the file.

An edit replaces the file atomically and only with a text that a server can read; edits of several
processes follow one another.
"""

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

MODELS = "model_config_list"
READABLE = 0o644
"""Mode of a new file, which servers read as other users."""
PATIENCE_S = 10.0
"""Longest wait in seconds for another edit, which takes milliseconds; beyond it the edit fails, so
that a script does not hang behind a process that keeps the lock."""
LOOK_S = 0.05
"""Seconds between two tries to get the lock."""


def add(path: Path, name: str, base_path: str) -> None:
    """Add a model at the end of the file, which is created if missing.

    Raises:
        ConfigError: a model has this name already, or the file cannot be read or is broken.
    """
    with _exclusive(path):
        top = _read(path) if path.exists() else {MODELS: []}
        if any(_name(entry) == name for entry in top[MODELS]):
            raise ConfigError([f'{path}: has a model "{name}" already; remove it first'])
        top[MODELS].append({"config": {"name": name, "base_path": base_path}})
        _write(path, top)


def remove(path: Path, name: str) -> None:
    """Take a model out of the file.

    Raises:
        ConfigError: no model has this name, or the file cannot be read or is broken.
    """
    with _exclusive(path):
        top = _read(path)
        left = [entry for entry in top[MODELS] if _name(entry) != name]
        if len(left) == len(top[MODELS]):
            names = ", ".join(sorted(map(_name, left))) or "none"
            raise ConfigError([f'{path}: has no model "{name}"; its models: {names}'])
        _write(path, {**top, MODELS: left})


def _name(entry: Any) -> str:  # noqa: ANN401 (an entry that was checked)
    return str(entry["config"]["name"])


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    parse_config_file(text, origin=path.parent, place=str(path))  # raises where it is broken
    if without_comments(text) != text:
        raise ConfigError([f"{path}: has comments, which would be lost; edit it by hand"])
    top: dict[str, Any] = json_text(text, str(path))
    return top


# Edits are serialized: of two concurrent ones the later would undo the earlier. The lock is on the
# directory, since an edit replaces the file: a lock on the file would be that of a deleted one.
@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
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
    """Take the lock. Raises: OSError, also if another process keeps it for `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"another edit has kept it for {PATIENCE_S:g} s; try again"
                ) from None
            time.sleep(LOOK_S)
        else:
            return


def _write(path: Path, top: dict[str, Any]) -> None:
    """Replace the file atomically, so that a server that watches it never reads a part."""
    text = json.dumps(top, indent=4, ensure_ascii=False) + "\n"
    # An invalid name or path must not get into the file: a server that watches it would ignore the
    # change, and the next server would not start.
    parse_config_file(text, origin=path.parent, place=str(path))
    try:
        _replace(path.resolve(), text)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror or error}"]) from error


def _replace(path: Path, text: str) -> None:
    # The new file lies beside the old one: a rename is atomic only in one file system.
    handle, made = tempfile.mkstemp(dir=path.parent)
    with ExitStack() as undone:
        undone.callback(os.unlink, made)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            # Without `fsync` the new file may be empty after a power failure.
            os.fsync(handle)
        _as_before(path, made)
        os.replace(made, path)
        undone.pop_all()


def _as_before(path: Path, made: str) -> None:
    """Give a new file the mode and owner of the one that it replaces."""
    if not path.exists():
        os.chmod(made, READABLE)
        return
    before = path.stat()
    with suppress(PermissionError):  # only root may change the owner
        os.chown(made, before.st_uid, before.st_gid)
    os.chmod(made, before.st_mode)
