"""Writes records to files in a thread of its own; what does not keep up is dropped and counted."""

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from glob import escape, glob
from io import FileIO
from itertools import count
from threading import Lock
from typing import Any, Final

from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.layers import RecordMetrics

log = logging.getLogger(__name__)

MOST_WAITING_BYTES: Final = 1 << 26
"""Tensors that may wait for the disk. Sampled requests beyond are dropped: a slow disk must take
neither memory nor time from requests."""

_NUMBERS: Final = count()
"""Numbers of the files of this process, across all versions."""


class RecordFiles:
    """The files of one version's records, one after the other.

    A file's name is the prefix, the start in UTC, the process and a number: files are never
    overwritten, and several workers or versions do not meet in one. Its last record is whole at any
    time.

    Args of the constructor:
        prefix: prefix of the files' paths.
        most_bytes: a file with as many is followed by another.
        counts: counts of the model.
    """

    def __init__(self, prefix: str, most_bytes: int, counts: RecordMetrics) -> None:
        self._prefix = prefix
        self._most_bytes = most_bytes
        self._counts = counts
        # Its thread is joined when the process ends, so that what waits is written.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="record")
        self._lock = Lock()
        self._waiting_bytes = 0
        self._file: FileIO | None = None
        self._written = 0
        self._troubled = False

    def is_full(self) -> bool:
        """Tell whether too much waits; a request that is not recorded for it is counted."""
        with self._lock:
            full = self._waiting_bytes >= MOST_WAITING_BYTES
            self._counts.shed += full
            return full

    def put(self, nbytes: int, make: Callable[[], bytes]) -> None:
        """Write what `make` gives, in the thread; drop it if too much waits.

        Args:
            nbytes: bytes that `make` holds until then.
            make: gives the bytes of one record.
        """
        with self._lock:
            fits = self._waiting_bytes == 0 or self._waiting_bytes + nbytes <= MOST_WAITING_BYTES
            self._waiting_bytes += nbytes if fits else 0
            self._counts.shed += not fits
        if fits:
            self._thread.submit(self._write, nbytes, make)

    def close(self) -> None:
        """Close the file once all that waits is written; does not wait for it."""
        self._thread.submit(self.end_file)
        self._thread.shutdown(wait=False)

    def _write(self, nbytes: int, make: Callable[[], bytes]) -> None:
        try:
            self.append(make())
            self._counts.recorded += 1
            self._troubled = False
        except Exception as error:
            is_defect = not isinstance(error, OSError)
            self._counts.broken += is_defect
            self._counts.failed += not is_defect
            if not self._troubled:  # once, and the metric counts the others
                event = Event("requests not recorded", prefix=self._prefix, cause=error)
                log.error(event, exc_info=is_defect)
            self._troubled = True
        finally:
            with self._lock:
                self._waiting_bytes -= nbytes

    def append(self, record: bytes) -> None:
        """Write a record, or nothing of it. In one thread at a time. Raises: OSError."""
        if self._file is None or self._written >= self._most_bytes:
            self.end_file()
            self._file, self._written = self._opened(), 0
        try:
            rest = memoryview(record)
            while rest:  # a disk that fills up takes a part before it refuses
                rest = rest[self._file.write(rest) :]
        except OSError:
            self.take_back(0)
            raise
        self._written += len(record)

    def take_back(self, nbytes: int) -> None:
        """Remove the last record, of `nbytes`, and the written part of one that has failed."""
        assert self._file is not None
        self._written -= nbytes
        try:
            self._file.truncate(self._written)
            self._file.seek(self._written)
        except OSError:
            self.end_file()

    def _opened(self) -> FileIO:
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        os.makedirs(os.path.dirname(self._prefix), exist_ok=True)
        while True:
            path = f"{self._prefix}-{began}-{os.getpid()}-{next(_NUMBERS)}.tfrecord"
            with suppress(FileExistsError):  # of another container with the same process id
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                return FileIO(os.open(path, flags, 0o600), "w")

    def end_file(self) -> None:
        """Let the next record begin another file."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


ANSWERS, SHADOWS = "answers", "shadows"
"""Parts of the files' names."""
ANY_SIZE: Final = 1 << 62
"""Bytes of a file of samples before the next one begins: never, since `SampleFiles` limits the
number of samples."""

EncodeEntry = Callable[[Any], bytes]
"""Gives the bytes of one record."""


class SampleFiles:
    """Writes each request to both files: with the reply that its client got, and the shadow's.

    So the record of an index in one file and that of the same index in the other are of one
    request, and each file alone can be replayed. Files of earlier starts count, too: their number
    of records is bounded, whatever happens.

    Args of the constructor:
        prefix: prefix of the files' paths.
        most: records in all files of a kind, together with those that are there already.
        encode: writes a record.
        count: gives the number of records in a file.
    """

    def __init__(
        self, prefix: str, most: int, encode: EncodeEntry, count: Callable[[str], int]
    ) -> None:
        self._prefix = prefix
        self._most = most
        self._encode = encode
        self._count = count
        self._left: int | None = None
        counts = RecordMetrics()
        self._troubled = False
        # Its thread is joined when the process ends, so that what waits is written.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="samples")
        self._answers, self._shadows = (
            RecordFiles(f"{prefix}-{kind}", ANY_SIZE, counts) for kind in (ANSWERS, SHADOWS)
        )

    def put(self, reply: object, shadow: object) -> None:
        """Write a request with both replies, unless there are enough; does not wait for it.

        Args:
            reply: answer to the client.
            shadow: answer of the shadow.
        """
        self._thread.submit(self._write, reply, shadow)

    def close(self, *, wait: bool = False) -> None:
        """Close the files once all that waits is written."""
        self._thread.submit(self._answers.end_file)
        self._thread.submit(self._shadows.end_file)
        self._thread.shutdown(wait=wait)

    def _write(self, reply: object, shadow: object) -> None:
        try:
            if self._left is None:
                kept = glob(f"{escape(self._prefix)}-{ANSWERS}-*.tfrecord")
                self._left = self._most - sum(map(self._count, kept))
            if self._left > 0:
                self._append(self._encode(reply), self._encode(shadow))
                self._left -= 1
        except Exception as error:
            if not self._troubled:  # once: the metric counts answers that differ
                event = Event("requests not recorded", prefix=self._prefix, cause=error)
                log.error(event, exc_info=not isinstance(error, OSError))
            self._troubled = True

    def _append(self, reply: bytes, shadow: bytes) -> None:
        """Write both, or neither."""
        self._shadows.append(shadow)
        try:
            self._answers.append(reply)
        except OSError:
            self._shadows.take_back(len(shadow))
            raise
