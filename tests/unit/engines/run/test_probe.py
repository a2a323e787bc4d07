"""How long a model takes is measured alike, whatever else the machine does."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat

import pytest

from ie_serving.core.values.tensors import Array
from ie_serving.engines.run.latency_model import MOST_REPEATS, MOST_ROUNDS, REPEATS, latency

MS = 0.001


class Scripted:
    """An infer request whose inferences take the seconds of a script, on a clock of its own."""

    renews = False

    def __init__(self, seconds: Iterator[float]) -> None:
        self._seconds = seconds
        self.now = 0.0
        self.runs = 0

    def fill(self, inputs: Mapping[str, Array]) -> None:
        self.now += 1.0  # not part of an inference

    def run(self) -> Mapping[str, Array]:
        self.now += next(self._seconds)
        self.runs += 1
        return {}

    def run_new(self) -> Mapping[str, Array]:
        return self.run()

    def cancel(self) -> None:
        """Nothing runs."""

    def renew(self) -> None:
        """Nothing fails."""


def measured(first: Sequence[float], then: float) -> tuple[float, int]:
    """Give what is measured, in milliseconds, and the number of inferences."""
    request = Scripted(chain(first, repeat(then)))
    seconds = latency(lambda: request, {}, (), lambda: request.now)
    assert seconds is not None
    return round(seconds / MS, 3), request.runs


@pytest.mark.parametrize(
    ("first", "then", "expected", "runs"),
    [
        pytest.param([0.3], 0.5 * MS, 0.5, 1 + REPEATS, id="the first one compiles"),
        pytest.param([5 * MS] * 8, 0.5 * MS, 0.5, 1 + REPEATS, id="disturbed at first"),
        pytest.param([2 * MS] * 20, 0.5 * MS, 0.5, 1 + 2 * REPEATS, id="disturbed for a round"),
        pytest.param([], 2 * MS, 2.0, 1 + 2 * REPEATS, id="long, and the same twice"),
        pytest.param([0.3, 8 * MS, 45 * MS], 0.03 * MS, 0.03, 5, id="processor taken away"),
        pytest.param([], 60 * MS, 60.0, 3, id="far above every limit"),
        pytest.param([2 * MS, 25 * MS], 0.3 * MS, 0.3, 1 + REPEATS, id="one is disturbed"),
        pytest.param([50 * MS, 50 * MS], 0.03 * MS, 0.03, 4, id="two are disturbed"),
        pytest.param([0.7], MS, 700.0, 1, id="too long to be repeated"),
    ],
)
def test_the_shortest_counts(
    first: Sequence[float], then: float, expected: float, runs: int
) -> None:
    assert measured(first, then) == (expected, runs)


def test_inferences_of_which_no_two_agree_end_the_measurement() -> None:
    always_less = [0.8**number * 0.9 * MS for number in range(100)]
    assert measured(always_less, MS)[1] == 1 + MOST_REPEATS


def test_a_machine_that_is_never_quiet_ends_the_measurement() -> None:
    rounds = [(3.3 * 0.85**number) * MS for number in range(9) for _ in range(REPEATS)]
    assert measured([3 * MS, *rounds], MS)[1] == 1 + MOST_ROUNDS * REPEATS
