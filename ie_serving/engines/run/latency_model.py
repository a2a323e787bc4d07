"""The latency model: predicts which requests are short enough to run on the event loop.

A lane costs about 150 us and its thread switches; an inference on the loop delays every other
request for its whole duration. The duration is learnt by request size: the number of elements of
the inputs, rounded up to a power of two (the bit length is the key).
"""

INLINE_MAX_S = 0.001
"""Longest mean, in seconds, of an inference that may hold the event loop; a longer one takes a
lane. A small request waits at most about this long behind an inference on the loop."""

WEIGHT = 1 / 16
"""Share of a new measurement in the running mean: one that was disturbed must not decide."""

CEILING_S = 4 * INLINE_MAX_S
"""Measurements count as at most this many seconds, so that after one slow spell a few dozen
requests, not hundreds, bring the mean below `INLINE_MAX_S` again."""


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
        # Beside others it would measure how busy the machine is, not how long the model takes.
        seen = min(seconds, CEILING_S)
        mean = self.mean_s.get(bucket, seen)
        self.mean_s[bucket] = mean + WEIGHT * (seen - mean)
