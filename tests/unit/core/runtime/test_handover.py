"""What outlives a worker: seen by a process that was forked before it was written."""

import os

import pytest

from ie_serving.core.runtime.handover import Handover


def written_by_a_fork(handover: Handover, *data: bytes) -> None:
    child = os.fork()
    if not child:
        handover.read()
        for each in data:
            handover.write(each)
        os._exit(0)
    os.waitpid(child, 0)


def test_the_first_worker_finds_nothing() -> None:
    assert Handover().read() == b""


def test_each_replacement_reads_what_was_written_last() -> None:
    handover = Handover()
    written_by_a_fork(handover, b"one", b"two" * 1000, b"three")
    assert handover.read() == b"three"
    handover = Handover()
    for data in (b"a", b"b", b"c"):
        written_by_a_fork(handover, data)
        written_by_a_fork(handover)
    assert handover.read() == b"c"


def test_a_write_that_was_cut_off_leaves_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handover = Handover()
    handover.write(b"whole")
    write = os.pwrite

    def cut_off(file: int, data: bytes, position: int) -> int:
        return write(file, data[:-1], position)

    monkeypatch.setattr(os, "pwrite", cut_off)
    handover.write(b"never")
    assert handover.read() == b"whole"
