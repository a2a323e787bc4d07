"""Regions of shared memory: what may be registered, read and written."""

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ie_serving.core.values.errors import (
    AlreadyExists,
    Forbidden,
    InvalidRequest,
    NotFound,
    QueueFull,
    ServingError,
)
from ie_serving.server.fronts.kserve_v2 import shared_memory as module
from ie_serving.server.fronts.kserve_v2.shared_memory import DIRECTORY, SharedMemory
from ie_serving.wire.kserve.regions import RegionPart

SIZE = 4096
NUMBERS = st.one_of(
    st.integers(-2, SIZE + 2),
    st.sampled_from([2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63)]),
)


@pytest.fixture(scope="module")
def memory() -> Iterator[shared_memory.SharedMemory]:
    memory = shared_memory.SharedMemory(create=True, size=SIZE)
    memory.buf[:] = bytes(range(256)) * (SIZE // 256)
    yield memory
    memory.close()
    memory.unlink()


@pytest.fixture
def regions(memory: shared_memory.SharedMemory) -> SharedMemory:
    regions = SharedMemory()
    regions.register("all", memory.name, 0, SIZE)
    return regions


@given(offset=NUMBERS, size=NUMBERS, at=NUMBERS, wanted=NUMBERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_place_is_in_its_region_and_a_region_in_its_file(
    memory: shared_memory.SharedMemory, offset: int, size: int, at: int, wanted: int
) -> None:
    regions, place = SharedMemory(), RegionPart("r", abs(wanted), abs(at))
    if offset < 0 or size < 1 or offset + size > SIZE:
        with pytest.raises(InvalidRequest):
            regions.register("r", "/" + memory.name, offset, size)
        assert regions.status("") == []
        return
    regions.register("r", "/" + memory.name, offset, size)
    if place.offset + place.size > size:
        for ask in (regions.check, regions.read, lambda place: regions.write(place, b"")):
            with pytest.raises(InvalidRequest, match="are not in region"):
                ask(place)
        return
    start = offset + place.offset
    before = bytes(memory.buf)
    assert bytes(regions.read(place)) == before[start : start + place.size]
    regions.write(place, before[start : start + place.size][::-1])
    after = bytes(memory.buf)
    assert after[start : start + place.size] == before[start : start + place.size][::-1]
    assert (after[:start], after[start + place.size :]) == (
        before[:start],
        before[start + place.size :],
    )


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        *[(key, InvalidRequest) for key in ("", "/", ".", "/..", "a/b", "//a", "../tmp/a", "a\0")],
        *[(key, InvalidRequest) for key in ("sem.lock", "/sem.lock", "a" * 256, "\ud800", 1, None)],
        ("/ie_serving_is_not_there", NotFound),
    ],
)
def test_a_key_that_names_no_shared_memory_is_refused(
    key: object, kind: type[ServingError]
) -> None:
    regions = SharedMemory()
    with pytest.raises(kind):
        regions.register("r", key, 0, 1)
    assert regions.status("") == []


@pytest.mark.parametrize("name", ["", "n" * 256])
def test_names_of_regions(memory: shared_memory.SharedMemory, name: str) -> None:
    with pytest.raises(InvalidRequest, match="1 to 255 bytes"):
        SharedMemory().register(name, memory.name, 0, 1)


@pytest.mark.parametrize(
    ("offset", "size"),
    [
        pytest.param(True, 1, id="true as offset"),
        pytest.param(0, True, id="true as size"),
        pytest.param("0", 1, id="a text"),
        pytest.param(0, None, id="no size"),
        pytest.param(0.0, 1, id="a fraction"),
    ],
)
def test_numbers_are_numbers(
    memory: shared_memory.SharedMemory, offset: object, size: object
) -> None:
    with pytest.raises(InvalidRequest, match="has to be a number of bytes"):
        SharedMemory().register("r", memory.name, offset, size)


def test_only_regular_files_are_registered(memory: shared_memory.SharedMemory) -> None:
    place = Path(DIRECTORY) / f"ie_serving_{os.getpid()}"
    for make, unmake, text in (
        (lambda: place.symlink_to(memory.name), place.unlink, "symbolic links"),
        (place.mkdir, place.rmdir, "directory"),
        (lambda: os.mkfifo(place), place.unlink, "no regular file"),
    ):
        make()
        try:
            with pytest.raises(InvalidRequest, match=text):
                SharedMemory().register("r", place.name, 0, 1)
        finally:
            unmake()


def test_memory_of_another_user_is_refused(
    memory: shared_memory.SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, regions = Path(DIRECTORY) / memory.name, SharedMemory()
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    for mode in (0o600, 0o660, 0o664, 0o602):
        path.chmod(mode)
        with pytest.raises(Forbidden, match="another user"):
            regions.register("r", memory.name, 0, 1)
    path.chmod(0o666)
    regions.register("r", memory.name, 0, 1)
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)


def test_a_name_is_taken_until_it_is_unregistered(
    regions: SharedMemory, memory: shared_memory.SharedMemory
) -> None:
    with pytest.raises(AlreadyExists, match='"all" is registered already'):
        regions.register("all", memory.name, 0, 1)
    assert regions.status("all") == [
        {"name": "all", "key": memory.name, "offset": 0, "byte_size": SIZE}
    ]
    regions.unregister("all")
    regions.unregister("all")
    for ask in (regions.status, lambda name: regions.read(RegionPart(name, 1, 0))):
        with pytest.raises(NotFound, match='"all" is not registered'):
            ask("all")
    regions.register("all", memory.name, 1, 1)
    regions.register("more", memory.name, 1, 1)
    regions.unregister("")
    assert regions.status("") == []


def test_regions_are_bounded(
    memory: shared_memory.SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_REGIONS", 2)
    regions = SharedMemory()
    for name in "ab":
        regions.register(name, memory.name, 0, 1)
    with pytest.raises(QueueFull, match="2 regions are registered"):
        regions.register("c", memory.name, 0, 1)


def test_a_file_that_is_shortened_does_not_end_the_server(
    memory: shared_memory.SharedMemory,
) -> None:
    other = shared_memory.SharedMemory(create=True, size=SIZE)
    path, regions = Path(DIRECTORY) / other.name, SharedMemory()
    regions.register("r", other.name, 0, SIZE)
    place = RegionPart("r", SIZE, 0)
    os.truncate(path, SIZE - 1)
    try:
        for move in (regions.read, lambda place: regions.write(place, bytes(SIZE))):
            with pytest.raises(InvalidRequest, match="has become shorter"):
                move(place)
        assert path.stat().st_size == SIZE - 1
    finally:
        other.close()
        other.unlink()


def test_a_region_is_closed_after_its_last_use(memory: shared_memory.SharedMemory) -> None:
    """Not before: the number of a closed file is soon that of another."""
    regions, place, wanted = SharedMemory(), RegionPart("r", SIZE, 0), bytes(memory.buf)
    before, ended, found = len(os.listdir("/proc/self/fd")), threading.Event(), set[bytes]()

    def read() -> None:
        while not ended.is_set():
            with contextlib.suppress(NotFound):
                found.add(bytes(regions.read(place)))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(500):
        regions.register("r", memory.name, 0, SIZE)
        with Path("/dev/zero").open("rb", buffering=0):  # takes the number of a closed file
            regions.unregister("")
    ended.set()
    for thread in threads:
        thread.join(30)
    assert found <= {wanted}
    assert len(os.listdir("/proc/self/fd")) == before
