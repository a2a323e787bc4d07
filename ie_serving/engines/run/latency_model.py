"""The latency model: predicts which requests are short enough to run on the event loop.

A lane costs about 150 us and its thread switches; an inference on the loop delays every other
request for its whole duration. The duration is learnt by request size: the number of elements of
the inputs, rounded up to a power of two (the bit length is the key).
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.run.infer_request import EngineRequest
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

INLINE_MAX_S = 0.001
"""Longest mean, in seconds, of an inference that may hold the event loop; a longer one takes a
lane. A small request waits at most about this long behind an inference on the loop."""

WEIGHT = 1 / 16
"""Share of a new measurement in the running mean: one that was disturbed must not decide."""

CEILING_S = 4 * INLINE_MAX_S
"""Measurements count as at most this many seconds, so that after one slow spell a few dozen
requests, not hundreds, bring the mean below `INLINE_MAX_S` again."""

_alone = threading.Lock()
"""Probes of models that load at the same time would measure each other."""
REPEATS = 15
"""Most inferences of one round. The shortest counts: whatever else the machine does only ever makes
one longer."""
BUDGET_S = 0.05
"""Seconds of a round, or two inferences where these take longer."""
MOST_REPEATS = 4 * REPEATS
MOST_S = 0.3
"""Inferences and seconds of a round in which no two take about as long as the shortest: where
others keep the processor, one may take 50 ms instead of 30 us."""
LONG_S = 0.5
"""A first inference of so many seconds is not repeated: the load would take as long again."""
PLAIN_S = 0.02
"""Seconds far above every limit that a latency is compared with. Where the first three inferences
take so long they are enough, if they are alike by `SAME`: one alone may have compiled, and others
may keep the processor for 50 ms."""
SAME = 1 / 3
"""Least share of the longest inference that the shortest takes where they count as alike."""
DOUBTFUL_S = 4 * INLINE_MAX_S
"""Between `INLINE_MAX_S` and this, in seconds, load from other work could decide between loop and
lane. Then rounds are repeated until one is no shorter than those before."""
SHORTER = 0.9
"""Share of an inference from which another one counts as no shorter."""
MOST_ROUNDS = 6
"""Rounds on a machine that is never quiet: 0.3 s."""
Clock: TypeAlias = Callable[[], float]


class LatencyModel:
    """Running mean of the seconds that requests of each size take.

    Attributes:
        mean_s: mean by bit length of the size. `Program` reads and updates it in place, since this
            is on the way of every small request.
        longest_inline_s: means up to this run on the loop: all, none, or the short ones.
    """

    def __init__(self, execution: str) -> None:
        self.mean_s: dict[int, float] = {}
        self.longest_inline_s = {"inline": float("inf"), "async": -1.0}.get(execution, INLINE_MAX_S)

    def learn_at_load(self, size: int, seconds: float) -> None:
        """Take a measurement for its own size and all smaller ones."""
        # A smaller request takes no longer; a larger one has to be measured in a lane first.
        for bucket in range(size.bit_length() + 1):
            self.mean_s[bucket] = min(seconds, CEILING_S)

    def learn(self, bucket: int, seconds: float) -> None:
        """Take the measurement of a request that shared the engine with no other."""
        # An inference beside others measures how busy the machine is, not the model.
        seen = min(seconds, CEILING_S)
        mean = self.mean_s.get(bucket, seen)
        self.mean_s[bucket] = mean + WEIGHT * (seen - mean)


def latency(
    make: Callable[[], EngineRequest],
    inputs: Arrays | None,
    failures: tuple[type[Exception], ...],
    clock: Clock = time.perf_counter,
) -> float | None:
    """Measure one inference in seconds, the shortest of several: others may use the machine.

    Args:
        make: gives an infer request of the compiled model.
        inputs: inputs of a measurement; None where no shape can be guessed.
        failures: types of the engine's errors.
        clock: gives seconds.

    Returns:
        None where the inputs are no valid ones, or there are none.
    """
    if inputs is None:
        return None
    refused: tuple[type[Exception], ...] = (*failures, ServingError, MemoryError)
    try:
        # A request of its own, dropped afterwards: a refusal may leave one unfit for serving.
        request = make()
        with _alone:
            return _shortest(lambda: _timed(request, inputs, clock))
    except refused as error:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
        log.debug(Event("zeros refused", inputs=shapes, cause=error))
        return None


def _shortest(infer: Callable[[], float]) -> float:
    first = infer()  # allocates, and compiles for the shape
    if first >= LONG_S:
        return first
    begun = [first, infer()]
    if min(begun) >= PLAIN_S:
        begun.append(infer())
        if min(begun) >= max(PLAIN_S, SAME * max(begun)):
            return min(begun)
    shortest = _round(infer, *begun[1:])
    for _ in range(1, MOST_ROUNDS):
        if not INLINE_MAX_S < shortest < DOUBTFUL_S:
            break
        before, shortest = shortest, min(shortest, _round(infer))
        if shortest > SHORTER * before:
            break
    return shortest


def _round(infer: Callable[[], float], *before: float) -> float:
    measured = list(before)
    while not _is_enough(measured):
        measured.append(infer())
    return min(measured)


def _is_enough(measured: Sequence[float]) -> bool:
    if len(measured) < REPEATS and sum(measured) < BUDGET_S:
        return False
    if len(measured) >= MOST_REPEATS or sum(measured) > MOST_S:
        return True
    shortest = min(measured)
    return sum(SHORTER * each <= shortest for each in measured) > 1


def _timed(request: EngineRequest, inputs: Arrays, clock: Clock) -> float:
    request.fill(inputs)
    started = clock()
    request.run()
    return clock() - started
