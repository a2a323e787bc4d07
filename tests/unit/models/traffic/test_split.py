"""What is counted of a version's requests, and when it counts no more."""

import asyncio
import time
from collections import Counter
from contextlib import ExitStack

import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.models.traffic.policy import Rollback, SeenVersion, TrafficRule
from ie_serving.models.traffic.split import SplitTraffic, Window


def split_of(**rule: float) -> SplitTraffic:
    rollback = Rollback(min_requests=2, **rule)  # type: ignore[arg-type]
    split = SplitTraffic("m", TrafficRule(shares={"1": 90, "2": 10}, rollback=rollback), Counter())
    split.resolve({}, {1, 2})
    return split


def fail(split: SplitTraffic, version: int, error: BaseException, took_s: float = 0.0) -> None:
    began = time.perf_counter() - took_s
    with pytest.raises(type(error)), split.watched(version, began):
        raise error


def test_a_window_forgets_what_is_older() -> None:
    window = Window(Rollback(error_rate=0.5, latency_ms=10, window_s=60))

    def add(now: float, took_s: float, *, failed: bool) -> SeenVersion:
        return window.end(window.begin(now), now, now + took_s, failed=failed)

    assert add(0.0, 0.001, failed=True) == SeenVersion(1, 1, 0)
    assert add(59.0, 0.011, failed=False) == SeenVersion(2, 1, 1)
    assert add(61.0, 0.001, failed=False) == SeenVersion(2, 0, 1)
    assert add(200.0, 0.001, failed=False) == SeenVersion(1, 0, 0)


def test_a_request_counts_once_whether_it_is_slow_before_it_ends_or_fails() -> None:
    window = Window(Rollback(error_rate=0.5, latency_ms=10, window_s=60))
    first, left, second = (window.begin(0.0) for _ in range(3))
    assert window.hanging(0.0, 0.01) is None
    assert window.leave(left, 0.0, 0.01) == SeenVersion(0, 0, 0)
    assert window.hanging(1.0, 1.0) == SeenVersion(2, 0, 2)
    assert window.hanging(1.0, 1.0) is None
    assert window.leave(first, 2.0, 2.0) == SeenVersion(2, 0, 2)
    assert window.end(second, 2.0, 2.0, failed=True) == SeenVersion(2, 1, 2)
    assert window.end(window.begin(100.0), 100.0, 100.0, failed=False) == SeenVersion(1, 0, 0)


def test_failures_take_the_share_of_the_smaller_one_alone() -> None:
    split = split_of(error_rate=0.5)
    for _ in range(5):
        fail(split, 1, InvalidRequest("no"))
    assert not split.rolled_back
    for _ in range(2):
        fail(split, 2, InvalidRequest("no"))
    assert "went to version 1: 2 of 2 requests" in split.rolled_back[2]
    assert split.shares == {1: 1.0, 2: 0.0}
    # A request that began before, and a version that comes again, change nothing.
    fail(split, 2, InvalidRequest("no"))
    split.resolve({}, {1})
    split.resolve({}, {1, 2})
    assert split.shares == {1: 1.0, 2: 0.0}


def test_a_version_that_was_rolled_back_answers_where_no_other_can() -> None:
    split = split_of(error_rate=0.5)
    for _ in range(2):
        fail(split, 2, InvalidRequest("no"))
    split.resolve({}, {2})
    assert split.choose(None) == 2
    split.resolve({}, {1, 2})
    assert split.shares == {1: 1.0, 2: 0.0}


def test_clients_that_leave_do_not_count() -> None:
    split = split_of(error_rate=0.5)
    for _ in range(5):
        fail(split, 2, asyncio.CancelledError())
    assert not split.rolled_back


def test_a_client_that_leaves_after_the_limit_has_found_the_version_slow() -> None:
    split = split_of(error_rate=0.5, latency_ms=20)
    for _ in range(5):
        fail(split, 2, asyncio.CancelledError())
    assert not split.rolled_back
    for _ in range(2):
        fail(split, 2, asyncio.CancelledError(), took_s=0.5)
    assert "2 of 2 requests within 60 s took longer than latency_ms 20" in split.rolled_back[2]


def test_a_version_that_hangs_loses_its_share_though_no_request_ends() -> None:
    split = split_of(latency_ms=20)
    with ExitStack() as under_way:
        for _ in range(2):
            under_way.enter_context(split.watched(2, time.perf_counter() - 0.5))
        assert {split.choose(None) for _ in range(20)} == {1}
        assert "2 of 2 requests within 60 s took longer than latency_ms 20" in split.rolled_back[2]


def test_slow_answers_take_the_share() -> None:
    split = split_of(latency_ms=20)
    for took_s in (0.001, 0.5):
        with split.watched(2, time.perf_counter() - took_s):
            pass
    assert "1 of 2 requests within 60 s took longer than latency_ms 20" in split.rolled_back[2]


def test_a_share_without_a_version_that_serves_goes_to_the_largest() -> None:
    split = SplitTraffic("m", TrafficRule(shares={"stable": 90, "canary": 10}), Counter())
    split.resolve({"stable": 1}, {1})
    assert split.shares == {1: 1.0}
    split.resolve({"stable": 1, "canary": 2}, {2})
    assert split.shares == {2: 1.0}
    split.resolve({"stable": 1, "canary": 2}, {3})
    assert split.ranges is None


def test_a_request_counts_for_as_long_as_the_rule_says() -> None:
    now, rule = [0.0], Rollback(min_requests=2, error_rate=0.5, window_s=60)
    traffic = TrafficRule(shares={"1": 90, "2": 10}, rollback=rule)
    split = SplitTraffic("m", traffic, Counter(), lambda: now[0])
    split.resolve({}, {1, 2})
    for now[0] in (0.0, 61.0):
        fail(split, 2, InvalidRequest("no"))
    assert not split.rolled_back
    fail(split, 2, InvalidRequest("no"))
    assert split.rolled_back
