"""Storage for a base path that is a model file instead of a repository: the file is version 1.

Files beside it with the same name and a companion's suffix (the `.bin` of a `.xml`) belong to the
version; other models in the same directory do not, nor does the same model in another format.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event as Flag

from ie_serving.core.values.errors import EntryChanged, NotThereYet, StorageError, Unauthorized
from ie_serving.storage.backends.local import tag_of
from ie_serving.storage.base import NEVER, Entry, fingerprint_of
from ie_serving.storage.forms import SUFFIXES

VERSION = "1"


def is_model_file(path: str) -> bool:
    """Tell whether a base path is a model's file, also one that is not there yet."""
    return Path(path).suffix in SUFFIXES and not Path(path).is_dir()


class SingleFile:
    """One local file as a repository. See `storage.base.Storage`."""

    def __init__(self, path: str | Path) -> None:
        self._file = Path(path)

    @property
    def url(self) -> str:
        """The path as it was given."""
        return str(self._file)

    def directories(self) -> list[str]:
        """Name the one version."""
        if not self._file.is_file():
            raise NotThereYet(f"{self._file}: no such file: create it or correct the base path")
        return [VERSION]

    def list(self, directory: str) -> Iterator[Entry]:
        """Yield the file and its companions."""
        if directory != VERSION:
            return
        try:
            yield from (self._entry(path) for path in self._files())
        except FileNotFoundError:  # removed while it was listed
            return
        except OSError as error:
            raise StorageError(f"{self._file}: cannot be listed: {error.strerror}") from error

    @contextmanager
    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> Iterator[Path]:
        """Give a directory with links to exactly these files."""
        if set(self.list(directory)) != set(entries):
            raise EntryChanged(
                f"{self._file} was changed after it had been listed; it is listed anew"
            )
        try:
            made = self._linked(entries)
        except OSError as error:
            raise StorageError(f"{error.filename}: cannot be made: {error.strerror}") from error
        yield made

    def _files(self) -> Iterator[Path]:
        for path in self._file.parent.iterdir():
            belongs = path.stem == self._file.stem and path.suffix not in SUFFIXES
            if (path.name == self._file.name or belongs) and path.is_file():
                yield path

    def _entry(self, path: Path) -> Entry:
        status = path.stat()
        name = f"{VERSION}/{path.name}"
        return Entry(name, status.st_size, tag_of(status), status.st_mtime)

    # Always in the same directory, since compiled models are kept by the path that they were read
    # from. It stays: it holds links alone, and another process may serve the same file.
    def _linked(self, entries: tuple[Entry, ...]) -> Path:
        own = Path(tempfile.gettempdir()) / f"ie_serving-{os.geteuid()}"
        own.mkdir(mode=0o700, exist_ok=True)
        if own.is_symlink() or own.stat().st_uid != os.geteuid():
            raise Unauthorized(f"{own} belongs to another user: remove it, or set TMPDIR")
        made = own / fingerprint_of(entries, str(self._file.resolve()))[:16]
        made.mkdir(exist_ok=True)
        for entry in entries:
            name = Path(entry.path).name
            with suppress(FileExistsError):
                (made / name).symlink_to((self._file.parent / name).resolve())
        return made
