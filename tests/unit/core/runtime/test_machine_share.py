"""The part of the machine that one of several processes takes."""

import pytest

from ie_serving.core.runtime.machine_share import SHARE, Share
from ie_serving.engines.run import threads


@pytest.mark.parametrize(
    ("workers", "whole", "part"),
    [
        pytest.param(1, 7, 7, id="one has all"),
        pytest.param(2, 7, 3, id="two share seven"),
        pytest.param(2, 1, 1, id="two share one"),
        pytest.param(64, 64, 1, id="64 share 64"),
    ],
)
def test_parts_fill_the_whole_once(workers: int, whole: int, part: int) -> None:
    share = Share()
    share.workers = workers
    assert share.of(whole) == part


def test_no_limit_stays_none() -> None:
    share = Share()
    share.workers = 2
    assert (share.of_limit(0), share.of_limit(10)) == (0, 5)


def test_threads_of_the_engine_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "limits", lambda *_: (6, None))
    assert threads.thread_limit() == 6
    monkeypatch.setattr(SHARE, "workers", 4)
    assert threads.thread_limit() == 1
    monkeypatch.setattr(SHARE, "workers", 2)
    assert threads.thread_limit() == 3
