"""The same life of a repository on every kind of store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ie_serving.core.values.errors import Unreachable
from tests.functional.storage.repositories import (
    AzureRepository,
    GcsRepository,
    LocalRepository,
    S3Repository,
)
from tests.functional.storage.servers import Azurite, FakeGcs, Fault, Proxy, Weed
from tests.unit.storage.contract import StorageContract, listed

OpenProxy = Callable[[int], Proxy]
Remote = S3Repository | GcsRepository | AzureRepository


class Pages:
    """More objects than stores list at once."""

    def test_two_thousand_objects_are_listed_and_copied(
        self, repository: LocalRepository | Remote
    ) -> None:
        """More than one page, which has 1000, of versions and of files of a version."""
        files = [f"1/{number:04}" for number in range(1001)]
        versions = [f"{version}/model.xml" for version in range(2, 1002)]
        repository.put_all({path: path.encode() for path in files + versions})
        assert len(repository.storage.directories()) == 1001
        assert [entry.path for entry in listed(repository.storage, "1")] == files
        entries = listed(repository.storage, "1001")
        with repository.storage.copy("1001", entries) as copy:
            assert (copy / "model.xml").read_bytes() == b"1001/model.xml"


class RemoteScenarios(StorageContract):
    """What only a store across a network can do."""

    def test_a_poll_is_one_request(self, repository: Remote) -> None:
        """The figure of docs/guide/storage.md; a page holds up to 1000 versions."""
        for version in range(1, 6):
            repository.put(f"{version}/model.xml", b"x")
            repository.put(f"{version}/model.bin", b"y")
        repository.proxy.requests.clear()
        assert len(repository.storage.directories()) == 5
        assert len(repository.proxy.requests) == 1

    def test_a_new_version_is_one_listing_and_two_requests_for_each_file(
        self, repository: Remote
    ) -> None:
        for name in ("model.xml", "model.bin"):
            repository.put(f"1/{name}", name.encode())
        repository.proxy.requests.clear()
        entries = listed(repository.storage, "1")
        with repository.storage.copy("1", entries):
            assert len(repository.proxy.requests) == 1 + 2 * 2
        with repository.storage.copy("1", entries):
            assert len(repository.proxy.requests) == 1 + 2 * 2, "served from the cache"

    def test_directory_markers_are_no_files(self, repository: Remote) -> None:
        repository.put("1/", b"")
        repository.put("1/model.xml", b"x")
        assert repository.storage.directories() == ["1"]
        assert [entry.path for entry in repository.storage.list("1")] == ["1/model.xml"]

    def test_a_base_may_end_with_a_slash(self, repository: Remote) -> None:
        repository.put("1/model.xml", b"x")
        assert repository.storage.url.endswith("/base path/m")

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Fault(latency_s=0.3), id="latency"),
            pytest.param(Fault(reset_after=700_000), id="reset in mid-body"),
            pytest.param(Fault(cut_after=700_000), id="truncated body"),
            pytest.param(Fault(flip_at=500_000), id="flipped byte"),
            pytest.param(Fault(status=503), id="503 on the way"),
        ],
    )
    def test_a_download_survives(self, repository: Remote, fault: Fault) -> None:
        data = bytes(range(256)) * 8000  # 2 MB
        repository.put("1/model.bin", data)
        entries = listed(repository.storage, "1")
        repository.proxy.faults.append(fault)
        with repository.storage.copy("1", entries) as copy:
            assert (copy / "model.bin").read_bytes() == data
        assert not repository.proxy.faults

    def test_a_burst_of_503_is_waited_out(self, repository: Remote) -> None:
        repository.put("1/model.xml", b"x")
        repository.proxy.faults.extend([Fault(status=503)] * 2)
        assert repository.storage.directories() == ["1"]

    def test_an_outage_is_an_error_and_is_over_at_the_next_poll(self, repository: Remote) -> None:
        repository.put("1/model.xml", b"x")
        assert repository.storage.directories() == ["1"]
        with repository.proxy.outage(), pytest.raises(Unreachable, match="was refused"):
            repository.storage.directories()
        assert repository.storage.directories() == ["1"]

    def test_a_start_during_an_outage_serves_what_was_fetched_before(
        self, repository: Remote
    ) -> None:
        repository.put("1/model.xml", b"x")
        repository.storage.directories()
        entries = listed(repository.storage, "1")
        with repository.storage.copy("1", entries):
            pass
        with repository.proxy.outage():
            restarted = repository.opened()
            assert restarted.directories() == ["1"]
            assert listed(restarted, "1") == entries
            with restarted.copy("1", entries) as copy:
                assert (copy / "model.xml").read_bytes() == b"x"
        repository.put("2/model.xml", b"y")
        assert restarted.directories() == ["1", "2"]

    def test_a_start_during_an_outage_without_a_cache_fails(self, repository: Remote) -> None:
        repository.put("1/model.xml", b"x")
        with repository.proxy.outage(), pytest.raises(Unreachable):
            repository.opened().directories()


class TestLocal(StorageContract, Pages):
    @pytest.fixture
    def repository(self, tmp_path: Path) -> LocalRepository:
        return LocalRepository(tmp_path / "base path" / "m")


class TestS3(RemoteScenarios, Pages):
    @pytest.fixture
    def repository(
        self, weed: Weed, proxied: OpenProxy, bucket: str, cache_dir: Path
    ) -> S3Repository:
        return S3Repository("s3", weed, proxied(weed.port), bucket, cache_dir)


class TestMinio(RemoteScenarios):
    @pytest.fixture
    def repository(
        self, weed: Weed, proxied: OpenProxy, bucket: str, cache_dir: Path
    ) -> S3Repository:
        return S3Repository("minio", weed, proxied(weed.port), bucket, cache_dir)


class TestGcs(RemoteScenarios):
    @pytest.fixture
    def repository(
        self, fake_gcs: FakeGcs, proxied: OpenProxy, bucket: str, cache_dir: Path
    ) -> GcsRepository:
        return GcsRepository(fake_gcs, proxied(fake_gcs.port), bucket, cache_dir)

    def test_a_doubled_slash_in_the_base_is_part_of_the_keys(
        self, repository: GcsRepository
    ) -> None:
        """Here only: SeaweedFS itself joins doubled slashes."""
        repository.put("odd//1/model.xml", b"x")
        assert repository.opened(below="/odd").directories() == []
        odd = repository.opened(below="/odd//")
        assert odd.directories() == ["1"]
        assert [entry.path for entry in odd.list("1")] == ["1/model.xml"]


class TestAzure(RemoteScenarios):
    @pytest.fixture
    def repository(
        self, azurite: Azurite, proxied: OpenProxy, bucket: str, cache_dir: Path
    ) -> AzureRepository:
        return AzureRepository(azurite, proxied(azurite.port), bucket, cache_dir)

    def test_directories_of_a_hierarchical_namespace_are_no_files(
        self, repository: AzureRepository
    ) -> None:
        """Such an account lists its directories as empty blobs."""
        folder = {"x-ms-meta-hdi_isfolder": "true"}
        for path in ("1", "1/assets"):
            repository.put(path, b"", **folder)
        repository.put("1/assets/names.txt", b"x")
        assert repository.storage.directories() == ["1"]
        assert [entry.path for entry in repository.storage.list("1")] == ["1/assets/names.txt"]


@pytest.mark.soak
class TestMinioPages(Pages):
    """For 4 s; `test_serving.py` has two pages of directories."""

    repository = TestMinio.repository


@pytest.mark.soak
class TestGcsPages(Pages):
    """For 13 s; `test_refusals.py` reads all pages of a listing in a tenth of one."""

    repository = TestGcs.repository


@pytest.mark.soak
class TestAzurePages(Pages):
    """For 22 s; as with `test_azure.py`."""

    repository = TestAzure.repository
