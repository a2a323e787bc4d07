"""Downloads entries to files: in parallel parts, resumed where they broke off, checked before use.

Memory is bounded by threads times one chunk. A file beside the download marks the parts that have
arrived (one byte each), so a later attempt, also of another process, fetches only missing parts. A
file gets its final name once its size and the store's checksum fit.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Lock

from ie_serving.core.values.errors import Corrupted, NotAvailable, StorageError, Unreachable
from ie_serving.core.values.hints import Hint
from ie_serving.storage import checksums
from ie_serving.storage.base import Entry, Remote
from ie_serving.storage.mirror.locks import Pause
from ie_serving.storage.trouble import RetryLimits, RetryLoop
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.stores import STORES

log = logging.getLogger(__name__)


class LeastSpeed:
    """Counts the bytes that arrive for one version, in several threads; ends a slow download.

    Args of the constructor:
        name: name of the download, for the error.
        least_bytes_per_s: 0 sets no limit.
        window_s: seconds over which the speed is measured.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        name: str,
        least_bytes_per_s: int,
        window_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._least_bytes_per_s = least_bytes_per_s
        self._window_s = window_s
        self._clock = clock
        self._lock = Lock()
        self._began_s = clock()
        self._bytes = 0

    def add(self, count: int) -> None:
        """Count bytes that arrived.

        Raises:
            StorageError: in the last window fewer bytes a second arrived than is allowed.
        """
        with self._lock:
            self._bytes += count
            now_s = self._clock()
            took_s = now_s - self._began_s
            if took_s < self._window_s:
                return
            arrived, self._bytes, self._began_s = self._bytes, 0, now_s
        if arrived < self._least_bytes_per_s * took_s:
            raise self._too_slow(arrived, took_s)

    def _too_slow(self, arrived: int, took_s: float) -> StorageError:
        return StorageError(
            f"{self._name}: the download is too slow: {arrived} bytes in {took_s:.0f} s,"
            f" at least {self._least_bytes_per_s} a second are expected: check the network",
            Hint(", or lower {storage.min_download_bytes_per_s}"),
        )


class Progress:
    """Counts the bytes of one version; used by several threads."""

    def __init__(
        self,
        name: str,
        total_bytes: int,
        report_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._total_bytes = total_bytes
        self._report_s = report_s
        self._clock = clock
        self._lock = Lock()
        self._done_bytes = 0
        self._began_s = self._reported_s = clock()

    def add(self, count: int) -> None:
        """Count bytes that arrived; log when the last line is `report_s` old."""
        with self._lock:
            self._done_bytes += count
            now_s = self._clock()
            if now_s - self._reported_s < self._report_s:
                return
            self._reported_s = now_s
        # Written after the lock is given back: a slow log must not hold the other parts.
        log.info(Event("download runs", **self._facts(now_s)))

    def finish(self) -> None:
        """Log that everything is here."""
        log.info(Event("download done", **self._facts(self._clock())))

    def _facts(self, now_s: float) -> dict[str, object]:
        return {
            "path": self._name,
            "done_mb": round(self._done_bytes / 1e6, 1),
            "total_mb": round(self._total_bytes / 1e6, 1),
            "elapsed_s": round(now_s - self._began_s, 1),
        }


PART_TRIES = RetryLimits(most=6)
"""Tries for each range, counted from the last byte that arrived: about 6 s of waits in all, since
the next load of the version continues from the bytes that arrived."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """How downloads are cut up and tried again."""

    part_bytes: int = 16 << 20
    """Bytes of one range. A broken connection costs at most so much again after a restart; smaller
    ones cost more requests, which stores charge for."""

    threads: int = 8
    """Ranges of one version requested at a time: one connection alone seldom fills a network."""

    tries: RetryLimits = PART_TRIES
    """Tries of each range, counted from the last byte that arrived."""

    report_s: float = 5.0
    """Seconds between two log lines of one download."""

    least_bytes_per_s: int = 0
    """A download that is slower ends, as one that broke off; 0 sets no limit."""

    least_over_s: float = 60.0
    """Seconds over which that is measured: longer than the pauses after a connection that broke."""


@dataclass(frozen=True)
class DownloadState:
    """The state that all files of one download share.

    Attributes:
        remote: the source of the bytes.
        transfer: transfer by which they are requested.
        directory: `files` in it takes complete files, `parts` those under way.
        written: turns errors of the local disk into StorageErrors.
        pause: waits between two tries.
        progress: counts what arrives.
        speed: ends a download that is too slow.
        broken_off: set once one part has failed for good.
        given_up: set from outside when the download is no longer wanted.
    """

    remote: Remote
    transfer: Transfer
    directory: Path
    written: Callable[[], AbstractContextManager[None]]
    pause: Pause
    progress: Progress
    speed: LeastSpeed
    broken_off: Flag
    given_up: Flag


def download(state: DownloadState, entries: Mapping[str, Entry]) -> Path:
    """Fetch the missing parts.

    Args:
        state: source and directories of the copy.
        entries: entries by path in the returned directory.

    Returns:
        The directory of complete files.

    Raises:
        EntryChanged: an entry has changed since it was listed.
        Corrupted: the bytes do not match the store's checksum; they are deleted.
        StorageError: any other trouble; parts that arrived are kept for the next attempt.
        NotAvailable: the server stops, or the download was given up.
    """
    with state.written():
        (state.directory / "files").mkdir(exist_ok=True)
        (state.directory / "parts").mkdir(exist_ok=True)
        jobs = [
            job
            for number, path in enumerate(sorted(entries))
            for job in _FileDownload(state, entries[path], path, number).jobs()
        ]
    _run(jobs, state)
    return state.directory / "files"


class _FileDownload:
    """One file under way: its parts, in any order, then its check."""

    def __init__(self, state: DownloadState, entry: Entry, path: str, number: int) -> None:
        self._state = state
        self._entry = entry
        self._target = state.directory / "files" / path
        self._work = state.directory / "parts" / str(number)
        self._noted = state.directory / "parts" / f"{number}.done"
        self._part_bytes = state.transfer.part_bytes
        self._lock = Lock()
        self._left = 0

    def jobs(self) -> list[Callable[[], None]]:
        """Give the remaining jobs, which may run at the same time."""
        count = max(1, -(-self._entry.size // self._part_bytes))
        if self._target.exists():
            self._state.progress.add(self._entry.size)
            return []
        self._target.parent.mkdir(parents=True, exist_ok=True)
        noted = self._noted.read_bytes() if self._noted.exists() else b""
        left = [part for part in range(count) if noted[part : part + 1] != b"\1"]
        left = left or [count - 1]  # all are here, but the check was not reached
        self._left = len(left)
        self._state.progress.add(self._entry.size - sum(self._length(part) for part in left))
        return [partial(self._run, part) for part in left]

    def _run(self, part: int) -> None:
        """Fetch one part; the thread that fetches the last part checks the file."""
        self._fetch(part)
        # Parts end in any order, in several threads; exactly one must find that it was the last.
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._finish()

    def _length(self, part: int) -> int:
        return min(self._part_bytes, self._entry.size - part * self._part_bytes)

    def _fetch(self, part: int) -> None:
        state, start = self._state, part * self._part_bytes
        with state.written():
            file = os.open(self._work, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _Range(state, self._entry, file, start, start + self._length(part)).fetch()
            with state.written():
                self._note(file, part)
        finally:
            os.close(file)

    def _note(self, file: int, part: int) -> None:
        """Note that the part is here, once it is safe on the disk."""
        if self._entry.size <= self._part_bytes:  # one part: it is fetched whole or again
            return
        # The part is written before it is noted: after a power cut a part that is here may not be
        # noted, but none that is noted may be missing.
        os.fdatasync(file)
        noted = os.open(self._noted, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(noted, b"\1", part)
        finally:
            os.close(noted)

    def _finish(self) -> None:
        state = self._state
        retrying = RetryLoop(state.transfer.tries, state.pause)
        expected = retrying.run(lambda: state.remote.checksum(self._entry))
        with state.written():
            if expected is None:
                path = self._entry.path
                log.info(Event("store offers no checksum, size checked only", path=path))
            else:
                self._verify(expected)
            with self._work.open("rb") as file:
                os.fsync(file.fileno())
            self._work.rename(self._target)

    def _verify(self, expected: checksums.Checksum) -> None:
        try:
            checksums.verify(self._work, expected, f"{self._state.remote.url}/{self._entry.path}")
        except Corrupted:
            # The wrong part is not known, so all of them go.
            self._work.unlink()
            self._noted.unlink(missing_ok=True)
            raise


class _Range:
    """The bytes from `position` up to `stop`, on their way into a file."""

    def __init__(
        self, state: DownloadState, entry: Entry, file: int, position: int, stop: int
    ) -> None:
        self._state = state
        self._entry = entry
        self._file = file
        self._position = position
        self._stop = stop
        self._retrying = RetryLoop(state.transfer.tries, state.pause)

    def fetch(self) -> None:
        """Read until complete; after a break, from the last byte that arrived."""
        self._retrying.run(self._read)

    def _read(self) -> None:
        if self._position == self._stop:  # an empty file, or a break after the last byte
            return
        state, entry = self._state, self._entry
        state.remote.read(entry, self._position, self._stop, self._take)
        if self._position < self._stop:
            raise Unreachable(
                f"{state.remote.url}/{entry.path}: the answer ended {self._stop - self._position} "
                f"bytes early: check proxies between this server and the store"
            )

    def _take(self, data: bytes) -> None:
        if self._state.broken_off.is_set() or self._state.given_up.is_set():
            raise NotAvailable("the download was broken off")
        if not data:  # no progress: an end that is early must not be tried for ever
            return
        self._check_end(self._position + len(data))
        with self._state.written():
            os.pwrite(self._file, data, self._position)
        self._position += len(data)
        self._state.progress.add(len(data))
        self._state.speed.add(len(data))
        STORES.received(self._state.remote.url, len(data))
        self._retrying.progressed()

    # A store that ignores ranges answers with the whole file, which would overwrite other parts.
    def _check_end(self, end: int) -> None:
        if end > self._stop:
            raise Corrupted(
                f"{self._state.remote.url}/{self._entry.path}: more bytes arrived than were asked "
                f"for: the store, or a proxy before it, has to support ranges"
            )


def _run(jobs: Iterable[Callable[[], None]], state: DownloadState) -> None:
    with ThreadPoolExecutor(state.transfer.threads, "download") as pool, ExitStack() as failed:
        # The other parts would be fetched for nothing, and hold the pool until they end.
        failed.callback(pool.shutdown, wait=False, cancel_futures=True)
        failed.callback(state.broken_off.set)
        for done in as_completed([pool.submit(job) for job in jobs]):
            done.result()
        failed.pop_all()
