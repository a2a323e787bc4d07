"""What several workers come to as one: states, defaults, and what replaces what."""

import pytest

from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.models.peers import KnownStatuses, ListedPeers, gained_or_lost, merged
from ie_serving.models.version.transition_policy import Snapshot, preserve_availability

LETTERS = {
    "S": State.START,
    "L": State.LOADING,
    "A": State.AVAILABLE,
    "U": State.UNLOADING,
    "E": State.END,
}


def statuses(text: str) -> list[VersionStatus]:
    """Of one worker: `2L 1A`."""
    return [VersionStatus(int(word[:-1]), LETTERS[word[-1]], "") for word in text.split()]


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        pytest.param(["1A", "1A"], "1A", id="each has it"),
        pytest.param(["1A", "1L"], "1L", id="one still loads it"),
        pytest.param(["1A", ""], "1L", id="one has not listed it yet"),
        pytest.param(["1S", "1S"], "1S", id="none has begun"),
        pytest.param(["1L", "1S"], "1L", id="one has begun"),
        pytest.param(["1E", "1A"], "1U", id="one has given it up"),
        pytest.param(["1U", "1A"], "1U", id="one gives it up"),
        pytest.param(["1E", ""], "1E", id="a replacement has never seen what is gone"),
        pytest.param(["2A 1A", "2L 1A"], "2L 1A", id="the one before is there in each"),
        pytest.param(["2A 1E", "2A 1A"], "2A 1U", id="the switch"),
    ],
)
def test_the_status_of_all_is_that_of_the_slowest(workers: list[str], told: str) -> None:
    assert merged([statuses(each) for each in workers]) == statuses(told)


def test_the_first_error_is_told_also_where_another_worker_serves() -> None:
    failed = VersionStatus(1, State.LOADING, "no memory")
    served = VersionStatus(1, State.AVAILABLE, "", "half of it")
    assert merged([[served], [failed]]) == [failed]


def beside(*others: str) -> ListedPeers:
    known: list[KnownStatuses] = [{"m": statuses(each)} for each in others]
    return ListedPeers(lambda: known, lambda: None)


@pytest.mark.parametrize(
    ("others", "shared"),
    [
        pytest.param([], {1, 2}, id="no other worker takes requests"),
        pytest.param(["2A 1A"], {1, 2}, id="all have both"),
        pytest.param(["2L 1A", "2A 1A"], {1}, id="one still loads it"),
        pytest.param(["2L 1E"], set(), id="nothing that all have"),
    ],
)
def test_versions_are_shared_where_all_workers_have_them(
    others: list[str], shared: set[int]
) -> None:
    assert set(beside(*others).shared("m", {1, 2})) == shared


def test_a_version_that_not_all_workers_have_replaces_nothing() -> None:
    own = [Snapshot(1, State.AVAILABLE, aspired=False), Snapshot(2, State.AVAILABLE, aspired=True)]
    assert preserve_availability(own) is not None
    held_back = beside("2L 1A").snapshots("m", own)
    assert preserve_availability(held_back) is None
    assert beside("2A 1A").snapshots("m", own) == own


def test_a_version_that_is_loaded_already_is_not_loaded_again() -> None:
    own = [Snapshot(2, State.AVAILABLE, aspired=True, due=True)]
    assert preserve_availability(beside("2L").snapshots("m", own)) is None


def test_models_whose_versions_others_gain_or_lose_are_looked_at_again() -> None:
    before: list[KnownStatuses] = [{"a": statuses("1A"), "b": statuses("1L"), "c": statuses("1L")}]
    after: list[KnownStatuses] = [{"a": statuses("1A"), "b": statuses("1A"), "c": statuses("1S")}]
    assert gained_or_lost(before, after) == {"b"}
    assert gained_or_lost(after, []) == {"a", "b", "c"}  # another number of workers
