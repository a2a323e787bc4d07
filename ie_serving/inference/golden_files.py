"""Reads files of golden requests, one request after the other: not all of them are in memory.

A file that is there is meant: what is no file, holds nothing or holds too much is an error, since a
version that it should keep from serving would serve otherwise.
"""

import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.golden import GoldenRequest

MOST_REQUESTS = 10_000
"""Golden requests of one file. At a millisecond each they delay a version by 10 s already."""

Read = Callable[[BinaryIO], Iterable[GoldenRequest]]
"""Reads a file. Raises InvalidRequest."""


def golden_requests(path: Path, read: Read) -> Iterator[GoldenRequest]:
    """Yield the requests of one file. Blocking.

    Raises:
        InvalidRequest: it is no file, is damaged, has none or more than `MOST_REQUESTS`.
        OSError: it cannot be read.
    """
    # Asked before it is opened: to open a pipe waits until somebody writes.
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
