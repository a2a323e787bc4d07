"""What is logged of listings that fail, and when the store is asked again."""

import logging
from collections.abc import Iterator

import pytest

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import NotThereYet, Unreachable
from ie_serving.models.repository.relisting import REMINDER_S, ListingTrouble
from tests.unit.models.stand_ins import Clock

AWAY = Unreachable("away")
BACKOFF = Backoff(first_s=1.0, longest_s=10.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trouble(clock: Clock, caplog: pytest.LogCaptureFixture) -> Iterator[ListingTrouble]:
    caplog.set_level("INFO", "ie_serving")
    yield ListingTrouble("m", "s3://bucket/m", chance=lambda: 1.0, clock=clock)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(record.levelno, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return found


def test_trouble_is_logged_when_it_begins_and_changes_and_while_it_lasts(
    trouble: ListingTrouble, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    failed = "listing failed, served versions stay model=m base_path=s3://bucket/m cause="
    trouble.failed(AWAY, BACKOFF, is_new=False)
    assert lines(caplog) == [(logging.ERROR, f"{failed}away")]
    clock.now += REMINDER_S - 1
    trouble.failed(AWAY, BACKOFF, is_new=False)
    assert lines(caplog) == []
    clock.now += 1
    trouble.failed(AWAY, BACKOFF, is_new=False)
    reminder = "listing still fails model=m base_path=s3://bucket/m since_s=600 failures=3 cause="
    assert lines(caplog) == [(logging.WARNING, f"{reminder}away")]
    trouble.failed(Unreachable("slow"), BACKOFF, is_new=False)
    assert lines(caplog) == [(logging.ERROR, f"{failed}slow")]
    assert trouble.ended()
    assert lines(caplog) == [(logging.INFO, "listing works again model=m base_path=s3://bucket/m")]
    assert not trouble.ended()


def test_a_store_that_fails_is_asked_less_and_less_and_a_missing_directory_as_ever(
    trouble: ListingTrouble,
) -> None:
    trouble.failed(NotThereYet("no"), BACKOFF, is_new=True)
    assert trouble.retry_s == 0.0
    waits = []
    for _ in range(10):
        trouble.failed(AWAY, BACKOFF, is_new=True)
        waits.append(trouble.retry_s)
    assert waits[:3] == [1.0, 2.0, 4.0]
    assert waits[-1] == 10.0
    trouble.ended()
    assert trouble.retry_s == 0.0
