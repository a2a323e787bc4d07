"""Remote repositories through verified copies: the contract, faults, restarts, eviction."""

import logging
import threading
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from ie_serving.core.values.errors import (
    Corrupted,
    NotAvailable,
    StorageError,
    Throttled,
    Unauthorized,
    Unreachable,
)
from ie_serving.storage.mirror import Mirror
from ie_serving.storage.mirror.download import LeastSpeed, Transfer
from tests.unit.storage.contract import StorageContract, listed
from tests.unit.storage.mirror.repositories import MODEL, MemoryRepository


class TestMirror(StorageContract):
    pass


def test_a_file_in_the_cache_is_not_fetched_again(served: MemoryRepository) -> None:
    assert served.fetch(storage=served.restarted()) == {"model.bin": MODEL}
    assert served.remote.calls == ["list"]


def test_a_copy_that_was_damaged_on_disk_is_fetched_again(served: MemoryRepository) -> None:
    (copy,) = (served.cache_dir / "copies").iterdir()
    (copy / "model.bin").write_bytes(b"cut")
    assert served.fetch() == {"model.bin": MODEL}


def overwrite(served: MemoryRepository) -> None:
    """Damage the copy without a change of its size."""
    (copy,) = (served.cache_dir / "copies").iterdir()
    (copy / "model.bin").write_bytes(b"?" + MODEL[1:])


def test_a_copy_that_was_overwritten_is_fetched_again_by_the_next_process(
    served: MemoryRepository, caplog: pytest.LogCaptureFixture
) -> None:
    overwrite(served)
    restarted = served.restarted()
    for _ in range(3):
        assert served.fetch(storage=restarted) == {"model.bin": MODEL}
    assert caplog.text.count("copy damaged, fetched again") == 1
    assert served.remote.calls.count("checksum") == 1
    assert served.fetch(storage=served.restarted()) == {"model.bin": MODEL}
    assert served.remote.calls.count("checksum") == 1


def test_a_copy_that_was_overwritten_is_not_served_while_the_store_is_away(
    served: MemoryRepository,
) -> None:
    overwrite(served)
    entries = listed(served.storage, "1")
    served.go_down()
    restarted = served.restarted()
    assert restarted.directories() == ["1"]
    with pytest.raises(Unreachable), restarted.copy("1", entries):
        pass


def test_a_damaged_copy_is_fetched_again_also_while_another_process_uses_it(
    served: MemoryRepository,
) -> None:
    """That one has loaded it before it was damaged, and may serve for months."""
    stopping = threading.Event()
    limit = threading.Timer(10, stopping.set)
    limit.start()
    with served.storage.copy("1", listed(served.storage, "1")):
        overwrite(served)
        assert served.fetch(storage=served.restarted(stopping=stopping)) == {"model.bin": MODEL}
    limit.cancel()


@pytest.mark.parametrize("digests", [None, "{"])
def test_a_copy_without_digests_is_taken_as_it_is_and_gets_them(
    served: MemoryRepository, digests: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """One of an earlier release."""
    (file,) = (served.cache_dir / "digests").iterdir()
    if digests is None:
        file.unlink()
    else:
        file.write_text(digests)
    assert served.fetch(storage=served.restarted()) == {"model.bin": MODEL}
    assert "read" not in served.remote.calls
    overwrite(served)
    assert served.fetch(storage=served.restarted()) == {"model.bin": MODEL}
    assert "read" in served.remote.calls


def test_a_break_in_mid_body_resumes_at_the_next_byte(repository: MemoryRepository) -> None:
    repository.put("1/model.bin", MODEL)
    arrived: Counter[int] = Counter()
    broken: set[int] = set()

    def break_once_in_each_part(path: str, position: int, data: bytes) -> bytes:
        if position % 10_000 == 5_000 and position not in broken:
            broken.add(position)
            raise Unreachable("reset")
        arrived[position] += 1
        return data

    repository.remote.before_chunk = break_once_in_each_part
    assert repository.fetch() == {"model.bin": MODEL}
    assert len(broken) == 5
    assert set(arrived.values()) == {1}


def test_an_attempt_that_fails_leaves_its_parts_for_the_next_one(
    repository: MemoryRepository,
) -> None:
    """The next attempt may be another process: all that it needs is on disk."""
    repository.put("1/model.bin", MODEL)
    third_part = threading.Event()

    def die_in_the_last_part(path: str, position: int, data: bytes) -> bytes:
        if position >= 50_000:
            assert third_part.wait(10)
            raise Unreachable("died")
        if position == 20_000:
            third_part.set()
        return data

    repository.remote.before_chunk = die_in_the_last_part
    with pytest.raises(Unreachable, match="died"):
        repository.fetch()
    again: list[int] = []

    def count(path: str, position: int, data: bytes) -> bytes:
        again.append(position)
        return data

    repository.remote.before_chunk = count
    assert repository.fetch(storage=repository.restarted()) == {"model.bin": MODEL}
    assert 50_000 in again
    assert 0 not in again, "the first part was complete"


def test_bytes_that_flip_once_are_fetched_again(
    repository: MemoryRepository, caplog: pytest.LogCaptureFixture
) -> None:
    repository.put("1/model.bin", MODEL)
    flipped = iter([True])

    def flip(path: str, position: int, data: bytes) -> bytes:
        return bytes([data[0] ^ 1]) + data[1:] if next(flipped, False) else data

    repository.remote.before_chunk = flip
    assert repository.fetch() == {"model.bin": MODEL}
    assert "download corrupted" in caplog.text


def test_bytes_that_always_flip_are_never_given_out(repository: MemoryRepository) -> None:
    repository.put("1/model.bin", MODEL)
    repository.remote.before_chunk = lambda path, position, data: b"?" * len(data)
    with pytest.raises(Corrupted, match=r"1/model\.bin.*the store promises"):
        repository.fetch()
    assert not (repository.cache_dir / "copies").exists()


def test_a_store_that_ignores_ranges_is_found_out(repository: MemoryRepository) -> None:
    repository.put("1/model.bin", MODEL)
    repository.remote.before_chunk = lambda path, position, data: data + MODEL
    with pytest.raises(Corrupted, match="support ranges"):
        repository.fetch()


def test_a_body_that_always_ends_early_is_unreachable(repository: MemoryRepository) -> None:
    repository.put("1/model.bin", b"12345")
    repository.remote.before_chunk = lambda path, position, data: b""
    with pytest.raises(Unreachable, match="5 bytes early"):
        repository.fetch()


def test_throttling_is_waited_out(repository: MemoryRepository) -> None:
    repository.put("1/model.bin", b"a")
    repository.remote.fails.extend([Throttled("slow down")] * 2)
    assert repository.storage.directories() == ["1"]


def test_a_refusal_is_not_tried_again(repository: MemoryRepository) -> None:
    repository.remote.fails.append(Unauthorized("no"))
    with pytest.raises(Unauthorized):
        repository.storage.directories()
    assert repository.remote.calls == ["directories"]


def test_many_files_arrive_whole(repository: MemoryRepository) -> None:
    for number in range(300):
        repository.put(f"1/{number}", b"%d" % number)
    assert len(repository.fetch()) == 300


def test_servers_that_share_a_cache_fetch_once(repository: MemoryRepository) -> None:
    repository.put("1/model.bin", MODEL)
    entries = listed(repository.storage, "1")
    start = threading.Barrier(4)
    found: list[bytes] = []

    def serve() -> None:
        storage = repository.restarted()
        start.wait(10)
        with storage.copy("1", entries) as copy:
            found.append((copy / "model.bin").read_bytes())

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [MODEL] * 4
    assert repository.remote.calls.count("checksum") == 1


def test_two_stores_with_the_same_url_do_not_share_copies(tmp_path: Path) -> None:
    here, there = MemoryRepository(tmp_path), MemoryRepository(tmp_path)
    there.remote.identity = "another endpoint"
    here.put("1/model.bin", b"here!")
    there.put("1/model.bin", b"there")
    mirror = Mirror(there.remote, tmp_path)
    assert here.fetch() == {"model.bin": b"here!"}
    assert there.fetch(storage=mirror) == {"model.bin": b"there"}


def test_a_stop_breaks_off_a_wait_for_the_store(repository: MemoryRepository) -> None:
    stopping = threading.Event()
    repository.go_down()
    stopping.set()
    with pytest.raises(NotAvailable):
        repository.restarted(stopping=stopping).directories()


def test_a_download_that_is_given_up_ends_and_keeps_its_parts(
    repository: MemoryRepository,
) -> None:
    repository.put("1/model.bin", MODEL)
    given_up = threading.Event()

    def give_up(path: str, position: int, data: bytes) -> bytes:
        if position == 25_000:
            given_up.set()
        return data

    repository.remote.before_chunk = give_up
    entries = listed(repository.storage, "1")
    with pytest.raises(NotAvailable), repository.storage.copy("1", entries, given_up):
        pass
    repository.remote.before_chunk = lambda path, position, data: data
    assert repository.fetch() == {"model.bin": MODEL}


def test_a_download_that_trickles_ends_and_says_what_to_set(repository: MemoryRepository) -> None:
    repository.put("1/model.bin", MODEL)
    quick = Transfer(part_bytes=10_000, least_bytes_per_s=1_000_000_000_000, least_over_s=0)
    mirror = Mirror(repository.remote, repository.cache_dir, transfer=quick)
    with pytest.raises(StorageError, match=r"too slow.*storage\.min_download_bytes_per_s"):
        repository.fetch(storage=mirror)


@pytest.mark.parametrize(
    ("arrived", "is_slow"),
    [
        pytest.param((60, 40), False, id="at the limit"),
        pytest.param((60, 39), True, id="below the limit"),
        pytest.param((100, 0), False, id="all at first"),
        pytest.param((99,), True, id="too little at first"),
    ],
)
def test_speed_is_measured_over_its_window(arrived: tuple[int, ...], is_slow: bool) -> None:
    now = [0.0]
    speed = LeastSpeed("m/1", 10, 10.0, lambda: now[0])
    for count in arrived[:-1]:
        speed.add(count)
    now[0] = 10.0
    with pytest.raises(StorageError) if is_slow else nullcontext():
        speed.add(arrived[-1])
    now[0] = 19.0
    speed.add(1)


def test_a_long_download_shows_its_progress(
    repository: MemoryRepository, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    repository.put("1/model.bin", MODEL)
    talkative = Transfer(part_bytes=10_000, report_s=0)
    mirror = Mirror(repository.remote, repository.cache_dir, transfer=talkative)
    repository.fetch(storage=mirror)
    assert "download runs path=memory://bucket/models/1" in caplog.text
    assert "download done path=memory://bucket/models/1 done_mb=0.1 total_mb=0.1" in caplog.text
