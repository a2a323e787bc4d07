"""What is tried again: trouble that passes, so often and so long, and nothing else."""

import pytest

from ie_serving.core.values.errors import (
    Corrupted,
    StorageError,
    Throttled,
    Unauthorized,
    Unreachable,
)
from ie_serving.storage.trouble import Retrying, Tries


@pytest.mark.parametrize("passing", [Unreachable("down"), Throttled("slow down")])
def test_passing_trouble_is_tried_again(passing: StorageError) -> None:
    waits: list[float] = []
    outcomes = iter([passing, passing, "done"])
    assert Retrying(Tries(most=3), waits.append).run(lambda: raised(next(outcomes))) == "done"
    assert len(waits) == 2
    assert waits[1] > waits[0] / 2


def test_the_last_failure_is_raised_when_the_tries_are_used_up() -> None:
    waits: list[float] = []
    outcomes = iter([Unreachable("1"), Unreachable("2")])
    with pytest.raises(Unreachable, match="2"):
        Retrying(Tries(most=2), waits.append).run(lambda: raised(next(outcomes)))
    assert len(waits) == 1


@pytest.mark.parametrize("lasting", [Unauthorized("no"), Corrupted("bad"), StorageError("?")])
def test_lasting_trouble_is_raised_at_once(lasting: StorageError) -> None:
    waits: list[float] = []
    with pytest.raises(type(lasting)):
        Retrying(Tries(most=4), waits.append).run(lambda: raised(lasting))
    assert waits == []


def test_progress_gives_all_tries_back() -> None:
    retrying = Retrying(Tries(most=2), lambda seconds: None)
    count = 0

    def advance_and_break() -> int:
        nonlocal count
        count += 1
        if count < 10:
            retrying.progressed()
            raise Unreachable("broke")
        return count

    assert retrying.run(advance_and_break) == 10


def test_what_hangs_is_not_asked_again_and_again() -> None:
    """Tries of 6 s each: the third would begin 12 s after the first."""
    now = 0.0

    def hang() -> None:
        nonlocal now
        now += 6.0
        raise Unreachable("no answer in time")

    tries = Tries(most=9, patience_s=10.0)
    with pytest.raises(Unreachable):
        Retrying(tries, lambda seconds: None, clock=lambda: now).run(hang)
    assert now == 12.0


def raised(outcome: StorageError | str) -> str:
    if isinstance(outcome, StorageError):
        raise outcome
    return outcome
