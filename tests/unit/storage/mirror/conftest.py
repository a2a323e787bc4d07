"""What the tests of the mirror begin with."""

from pathlib import Path

import pytest

from tests.unit.storage.mirror.repositories import MODEL, MemoryRepository


@pytest.fixture
def repository(tmp_path: Path) -> MemoryRepository:
    return MemoryRepository(tmp_path / "cache")


@pytest.fixture
def served(repository: MemoryRepository) -> MemoryRepository:
    """A repository with version 1, fetched once."""
    repository.put("1/model.bin", MODEL)
    assert repository.storage.directories() == ["1"]
    assert repository.fetch() == {"model.bin": MODEL}
    repository.remote.calls.clear()
    return repository
