"""Room for copies: what goes when there is too little."""

import errno
import os
from pathlib import Path

import pytest

from ie_serving.core.values.errors import StorageError, Unreachable
from ie_serving.storage.mirror import Mirror, cache, download
from ie_serving.storage.mirror.download import Transfer
from tests.unit.storage.contract import listed
from tests.unit.storage.mirror.repositories import MODEL, QUICK, MemoryRepository


class TestEviction:
    def test_the_least_recently_used_goes_first(self, repository: MemoryRepository) -> None:
        storage = repository.restarted(cache_size_bytes=150_000)
        for version in ("1", "2", "3", "4"):
            repository.put(f"{version}/model.bin", MODEL)
        entries = {version: listed(storage, version) for version in ("1", "2", "3", "4")}
        for moment, version in enumerate(["1", "2", "1", "3", "4"]):
            with storage.copy(version, entries[version]) as copy:
                pass
            os.utime(copy, (moment, moment))
        repository.remote.calls.clear()
        with storage.copy("4", entries["4"]), storage.copy("3", entries["3"]):
            assert repository.remote.calls == []
            with storage.copy("2", entries["2"]):
                assert "read" in repository.remote.calls, "2 was the oldest when 3 came"

    def test_a_copy_in_use_stays_whatever_the_limit(
        self, repository: MemoryRepository, caplog: pytest.LogCaptureFixture
    ) -> None:
        repository.put("1/model.bin", MODEL)
        repository.put("2/model.bin", MODEL)
        mine, other = repository.restarted(1000), repository.restarted(1000)
        with mine.copy("1", listed(mine, "1")) as copy:
            repository.fetch("2", other)
            assert (copy / "model.bin").read_bytes() == MODEL
        assert "everything else is in use" in caplog.text

    def test_compiled_models_count_and_go_as_well(self, repository: MemoryRepository) -> None:
        compiled = repository.cache_dir / cache.COMPILED / "model.blob"
        compiled.parent.mkdir(parents=True)
        compiled.write_bytes(MODEL)
        os.utime(compiled, (1, 1))
        repository.put("1/model.bin", MODEL)
        repository.fetch("1", repository.restarted(60_000))
        assert not compiled.exists()

    def test_a_fetch_abandoned_for_a_day_goes(self, repository: MemoryRepository) -> None:
        left = repository.cache_dir / "partial" / "abandoned"
        left.mkdir(parents=True)
        (repository.cache_dir / "locks").mkdir()
        os.utime(left, (1, 1))
        repository.put("1/model.bin", MODEL)
        repository.fetch()
        assert not left.exists()


class TestDisk:
    def test_a_disk_without_room_is_said_before_anything_is_fetched(
        self, repository: MemoryRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        repository.put("1/model.bin", MODEL)
        usage = cache.shutil.disk_usage(repository.cache_dir.parent)
        full = type(usage)(usage.total, usage.total, 1000)
        monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: full)
        with pytest.raises(StorageError, match=r"51200 bytes.* and 67108864 kept free.*cache_dir"):
            repository.fetch()
        assert "read" not in repository.remote.calls

    def test_a_download_that_broke_off_asks_for_room_for_the_rest_alone(
        self, repository: MemoryRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = bytes(range(256)) * 4000  # 1 MB, of which all but the last part arrives
        repository.put("1/model.bin", model)

        def die_at_the_end(path: str, position: int, data: bytes) -> bytes:
            if position >= 1_020_000:
                raise Unreachable("died")
            return data

        repository.remote.before_chunk = die_at_the_end
        one_after_the_other = Transfer(part_bytes=10_000, threads=1, tries=QUICK)
        mirror = Mirror(repository.remote, repository.cache_dir, transfer=one_after_the_other)
        with pytest.raises(Unreachable, match="died"):
            repository.fetch(storage=mirror)
        repository.remote.before_chunk = lambda path, position, data: data
        usage = cache.shutil.disk_usage(repository.cache_dir)
        tight = type(usage)(usage.total, usage.total, (64 << 20) + 100_000)
        monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: tight)
        assert repository.fetch(storage=mirror) == {"model.bin": model}

    def test_a_disk_that_fills_up_on_the_way_is_said(
        self, repository: MemoryRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        repository.put("1/model.bin", MODEL)

        def full(*arguments: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(download.os, "pwrite", full)
        with pytest.raises(StorageError, match="disk is full"):
            repository.fetch()

    def test_a_cache_that_cannot_be_written_is_said_and_what_serves_goes_on(
        self, served: MemoryRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with served.storage.copy("1", listed(served.storage, "1")) as copy:
            served.put("2/model.bin", MODEL)
            entries = listed(served.storage, "2")

            def read_only(path: Path, *arguments: object, **options: object) -> None:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

            monkeypatch.setattr(cache.Path, "mkdir", read_only)
            refused = pytest.raises(StorageError, match=r"cannot be written.*storage\.cache_dir")
            with refused, served.storage.copy("2", entries):
                pass
            assert served.storage.directories() == ["1", "2"]
            assert (copy / "model.bin").read_bytes() == MODEL

    def test_a_file_in_place_of_the_cache_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "cache").touch()
        repository = MemoryRepository(tmp_path / "cache")
        repository.put("1/model.bin", MODEL)
        with pytest.raises(StorageError, match=r"check storage\.cache_dir"):
            repository.fetch()
