"""A store that is away: what serves without it."""

import pytest

from ie_serving.core.values.errors import Missing, Unauthorized, Unreachable
from tests.unit.storage.contract import listed
from tests.unit.storage.mirror.repositories import MODEL, MemoryRepository

DAMAGED = ["", "{", "[]", '{"directories": ["1"], "copies": {"1": 3}}']


class TestWithoutTheStore:
    def test_a_restart_serves_the_last_known_good_version_and_says_so(
        self, served: MemoryRepository, caplog: pytest.LogCaptureFixture
    ) -> None:
        served.go_down()
        restarted = served.restarted()
        assert restarted.directories() == ["1"]
        assert served.fetch(storage=restarted) == {"model.bin": MODEL}
        assert "serving the last known good versions" in caplog.text

    def test_it_says_so_once_not_at_every_poll(
        self, served: MemoryRepository, caplog: pytest.LogCaptureFixture
    ) -> None:
        served.go_down()
        restarted = served.restarted()
        for _ in range(3):
            restarted.directories()
        assert caplog.text.count("last known good") == 1

    def test_a_version_that_was_listed_but_never_fetched_is_not_offered(
        self, served: MemoryRepository
    ) -> None:
        served.put("2/model.bin", b"b")
        served.storage.directories()
        served.go_down()
        assert served.restarted().directories() == ["1"]

    def test_a_version_that_was_withdrawn_does_not_come_back(
        self, served: MemoryRepository
    ) -> None:
        served.put("2/model.bin", b"bad")
        served.storage.directories()
        served.fetch("2")
        served.remove("2/model.bin")
        assert served.storage.directories() == ["1"]
        served.go_down()
        assert served.restarted().directories() == ["1"]

    def test_once_the_store_has_answered_a_failed_listing_is_an_error(
        self, served: MemoryRepository
    ) -> None:
        served.go_down()
        restarted = served.restarted()
        restarted.directories()
        served.come_back()
        served.put("2/model.bin", b"b")
        assert restarted.directories() == ["1", "2"]
        served.go_down()
        with pytest.raises(Unreachable):
            restarted.directories()
        with pytest.raises(Unreachable):
            listed(restarted, "1")

    def test_an_evicted_copy_is_not_offered(self, served: MemoryRepository) -> None:
        (copy,) = (served.cache_dir / "copies").iterdir()
        (copy / "model.bin").unlink()
        served.go_down()
        with pytest.raises(Unreachable):
            served.restarted().directories()

    def test_a_refusal_is_an_answer(self, served: MemoryRepository) -> None:
        served.remote.fails.append(Unauthorized("credentials"))
        with pytest.raises(Unauthorized):
            served.restarted().directories()

    def test_a_missing_prefix_is_an_answer(self, served: MemoryRepository) -> None:
        served.remove("1/model.bin")
        with pytest.raises(Missing):
            served.restarted().directories()

    def test_an_empty_cache_cannot_stand_in(self, repository: MemoryRepository) -> None:
        repository.go_down()
        with pytest.raises(Unreachable):
            repository.storage.directories()

    @pytest.mark.parametrize("record", DAMAGED)
    def test_a_damaged_record_stands_for_none(self, served: MemoryRepository, record: str) -> None:
        (file,) = (served.cache_dir / "listings").iterdir()
        file.write_text(record)
        served.go_down()
        with pytest.raises(Unreachable):
            served.restarted().directories()
