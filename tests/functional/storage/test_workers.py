"""Two workers on a store: what one has fetched the other takes from the cache."""

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.repositories import GcsRepository
from tests.functional.storage.servers import FakeGcs, Proxy
from tests.functional.storage.serving import FILES, Launcher, only, put, serves
from tests.process import until


@pytest.fixture
def repository(
    fake_gcs: FakeGcs, proxied: Callable[[int], Proxy], bucket: str, tmp_path: Path
) -> GcsRepository:
    return GcsRepository(fake_gcs, proxied(fake_gcs.port), bucket, tmp_path / "unused")


def received(server: Server) -> float:
    """Bytes that all workers have downloaded."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(server.rest.get("/metrics").text)
        for sample in family.samples
        if sample.name == "ie_serving_store_received_bytes_total"
    )


def test_a_version_is_fetched_once(repository: GcsRepository, launcher: Launcher) -> None:
    put(repository, 1)
    launcher.environ |= repository.environ
    server = launcher.serve(*only(repository), "--workers=2")
    size = sum((SAMPLE / "1" / name).stat().st_size for name in FILES)
    assert received(server) == size
    put(repository, 2)
    until(lambda: serves(server, 2))
    assert received(server) == 2 * size
