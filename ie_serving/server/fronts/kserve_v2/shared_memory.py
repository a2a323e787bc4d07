"""System shared memory: regions that clients register, to pass tensors by them.

Source: Triton's `extension_shared_memory.md`. A region is never mapped: a client that shortens a
mapped file kills the process that touches it (SIGBUS), and one that writes to it changes values
after they were checked. So the bytes are copied, once, by calls that fail where the file is too
short.
"""

import os
import stat
from collections.abc import Callable
from typing import Any, Final

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import (
    AlreadyExists,
    Forbidden,
    InvalidRequest,
    NotFound,
    QueueFull,
)
from ie_serving.wire.kserve.regions import RegionPart
from ie_serving.wire.protobuf.fields import Encoded
from ie_serving.wire.tfs.tensor_encoder import size_of

MOST_REGIONS: Final = 1000
"""Regions that may be registered: each holds an open file."""
DIRECTORY: Final = "/dev/shm"
_LONGEST: Final = 255
"""Longest name in bytes, of a file and of a region."""
_SEMAPHORE: Final = "sem."
"""Beginning of the names of POSIX semaphores, which lie in the same directory."""
_FOR_ALL: Final = stat.S_IROTH | stat.S_IWOTH
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class _Region:
    """A part of an open file, which is closed when its last user lets go of the region."""

    def __init__(self, file: int, key: str, offset: int, size: int) -> None:
        self.file = file
        self.key = key
        self.offset = offset
        self.size = size

    def __del__(self) -> None:
        os.close(self.file)


class SharedMemory:
    """The regions of this process. Threads may read and write; one registers."""

    extensions = ("system_shared_memory",)

    def __init__(self) -> None:
        self._regions: dict[str, _Region] = {}

    def register(self, name: str, key: object, offset: object, size: object) -> None:
        """Open a region.

        Args:
            name: name by which requests name it.
            key: name of a file in `DIRECTORY`, as of `shm_open`; a slash may stand before it.
            offset: offset of the region in the file.
            size: its number of bytes.

        Raises:
            AlreadyExists: there is a region of this name.
            InvalidRequest: a name or number is wrong, or the file too short.
            Forbidden: the file is neither of the server's user nor open to all users.
            NotFound: there is no such file.
            QueueFull: there are too many regions.
        """
        if name in self._regions:
            raise AlreadyExists(
                f'region "{name[:200]}" is registered already: unregister it before'
            )
        if not name or len(name.encode(errors="replace")) > _LONGEST:
            raise InvalidRequest(
                f"the name of a region has 1 to {_LONGEST} bytes: choose such a one"
            )
        if len(self._regions) >= MOST_REGIONS:
            raise QueueFull(f"{MOST_REGIONS} regions are registered: unregister some")
        start, length = _number("offset", offset, 0), _number("byte_size", size, 1)
        region = _Region(_opened(key), str(key), start, length)
        found = os.fstat(region.file)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidRequest(
                f"{_quoted(key)} is no regular file: create the region with shm_open"
            )
        if found.st_uid != os.geteuid() and found.st_mode & _FOR_ALL != _FOR_ALL:
            raise Forbidden(
                f"{_quoted(key)} belongs to another user than the server's: let all users read and"
                " write it (mode 666), or run both as one user"
            )
        if start + length > found.st_size:
            raise InvalidRequest(
                f"region of {length} bytes from offset {start}, and {_quoted(key)} has"
                f" {found.st_size} bytes: register no more than these"
            )
        self._regions[name] = region

    def unregister(self, name: str) -> None:
        """Forget a region, or all where the name is empty; requests under way still have it."""
        if name:
            self._regions.pop(name, None)
        else:
            self._regions.clear()

    def status(self, name: str) -> list[dict[str, Any]]:
        """Describe a region, or all where the name is empty. Raises: NotFound."""
        found = {name: self._region(name)} if name else self._regions
        return [
            {"name": name, "key": each.key, "offset": each.offset, "byte_size": each.size}
            for name, each in found.items()
        ]

    def check_cuda(self, name: str) -> None:
        """Refuse a region of CUDA memory: none is registered. Raises: NotFound."""
        if name:
            raise NotFound(
                f'region "{name[:200]}" is not registered as CUDA shared memory'
                "; this server has none: register system shared memory"
            )

    def check(self, part: RegionPart) -> None:
        """Refuse a part that is in no region. Raises: NotFound, InvalidRequest."""
        self._at(part)

    def read(self, part: RegionPart) -> Encoded:
        """Copy the bytes of a part, counted in the byte budget.

        Raises:
            NotFound, InvalidRequest: see `check`; and the file has become too short.
            RequestTooLarge, BudgetFull: as `Budget.lease`.
        """
        region, at = self._at(part)
        found = BUDGET.memory(part.size).data
        _moved(lambda done: os.preadv(region.file, [found[done:]], at + done), part.size, part)
        return found

    def write(self, part: RegionPart, data: Encoded) -> None:
        """Write bytes to the beginning of a part, no more than it has. Raises: as `read`."""
        size = size_of(data)
        region, at = self._at(part)
        # A client has made the file shorter: writing would make it grow again.
        if size and os.fstat(region.file).st_size < at + size:
            raise _too_short(part)
        given = memoryview(data).cast("B") if size else memoryview(b"")
        _moved(lambda done: os.pwrite(region.file, given[done:], at + done), size, part)

    def _region(self, name: str) -> _Region:
        found = self._regions.get(name)
        if found is None:
            raise NotFound(
                f'region "{name[:200]}" is not registered as system shared memory'
                ": register it first"
            )
        return found

    def _at(self, part: RegionPart) -> tuple[_Region, int]:
        region = self._region(part.region)
        if part.offset + part.size > region.size:
            raise InvalidRequest(
                f'{part.size} bytes from offset {part.offset} are not in region "{part.region}",'
                f" which has {region.size} bytes: send an offset and a size within it"
            )
        return region, region.offset + part.offset


def _moved(move: Callable[[int], int], size: int, part: RegionPart) -> None:
    """Move all bytes of a part, however many one call takes. Raises: InvalidRequest."""
    done = 0
    while done < size:
        try:
            moved = move(done)
        except OSError as error:
            raise InvalidRequest(f'region "{part.region}": {error.strerror}') from error
        if not moved:
            raise _too_short(part)
        done += moved


def _too_short(part: RegionPart) -> InvalidRequest:
    return InvalidRequest(
        f'the file of region "{part.region}" has become shorter than the region: register it anew'
    )


def _opened(key: object) -> int:
    """Open a file by the key of a region. Raises: InvalidRequest, NotFound, Forbidden."""
    name = key.removeprefix("/") if isinstance(key, str) else ""
    if name in ("", ".", "..") or name.startswith(_SEMAPHORE) or not _is_name(name):
        raise InvalidRequest(
            f"key {_quoted(key)} has to be the name of a file in {DIRECTORY}, without a slash but"
            " at its beginning, and of no semaphore"
        )
    try:
        return os.open(f"{DIRECTORY}/{name}", _FLAGS)
    except FileNotFoundError:
        raise NotFound(
            f"there is no shared memory {_quoted(key)} in {DIRECTORY}"
            ": create it before it is registered"
        ) from None
    except PermissionError:
        raise Forbidden(
            f"the server's user may not read and write {_quoted(key)}: give it the permission"
        ) from None
    except OSError as error:  # a link, a directory, a socket; too many open files
        raise InvalidRequest(f"{_quoted(key)}: {error.strerror}") from error


def _is_name(name: str) -> bool:
    try:
        return len(name.encode()) <= _LONGEST and not {"/", "\0"} & {*name}
    except UnicodeEncodeError:
        return False


def _quoted(key: object) -> str:
    return f'"{str(key)[:200]}"'


def _number(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidRequest(f'"{name}" of a region has to be a number of bytes from {least}')
    return value
