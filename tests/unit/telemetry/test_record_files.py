"""Records go to files in order; what does not keep up, or has no room, is counted and left out."""

import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from ie_serving.telemetry.metrics.layers import RecordMetrics
from ie_serving.telemetry.request.record_files import MOST_WAITING_BYTES, RecordFiles

WAIT_S = 10.0


def ended(files: RecordFiles) -> None:
    """Wait until all that was put is written."""
    done = Event()

    def last() -> bytes:
        done.set()
        return b""

    files.put(0, last)
    assert done.wait(WAIT_S)
    files.close()


def test_records_that_wait_are_bounded_by_their_bytes_and_written_in_order(tmp_path: Path) -> None:
    counts = RecordMetrics()
    files = RecordFiles(str(tmp_path / "a"), 1 << 30, counts)
    held = Event()

    def slow() -> bytes:
        assert held.wait(WAIT_S)
        return b"1"

    files.put(MOST_WAITING_BYTES, slow)
    files.put(1, lambda: b"2")
    assert counts.shed == 1
    held.set()
    ended(files)
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"1"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as Linux does")
def test_a_record_that_the_disk_cuts_off_is_taken_back(tmp_path: Path) -> None:
    counts = RecordMetrics()
    files = RecordFiles(str(tmp_path / "a"), 1 << 30, counts)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        records: list[Callable[[], bytes]] = [lambda: b"12345678", lambda: b"abcd", lambda: b"ef"]
        for make in records:
            files.put(4, make)
        ended(files)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"12345678ef"]
    assert counts.failed == 1
