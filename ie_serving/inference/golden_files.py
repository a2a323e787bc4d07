"""Reads files of golden requests one request at a time, so that memory holds only one.

A file that exists has to be usable: a directory, an empty file or one with too many requests is an
error, since otherwise a version that the file should refuse would serve.
"""

import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.golden import GoldenRequest

MOST_REQUESTS = 10_000
"""Most golden requests of one file; more are refused. At 1 ms each they delay a version by 10 s."""

Read = Callable[[BinaryIO], Iterable[GoldenRequest]]
"""Reads a file. Raises InvalidRequest."""


def golden_requests(path: Path, read: Read) -> Iterator[GoldenRequest]:
    """Yield the requests of one file. Blocking.

    Raises:
        InvalidRequest: not a regular file, damaged, empty, or with more than `MOST_REQUESTS`.
        OSError: the file cannot be read.
    """
    # Checked before opening: to open a pipe blocks until another process writes to it.
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidRequest("it is no regular file")
    count = 0
    with path.open("rb") as file:
        for golden in read(file):
            count += 1
            if count > MOST_REQUESTS:
                raise InvalidRequest(f"it has more than {MOST_REQUESTS} requests: keep the best")
            yield golden
    if not count:
        raise InvalidRequest("it has no requests: add some, or remove the file")
