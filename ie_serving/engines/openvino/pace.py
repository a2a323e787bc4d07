"""Which requests are short enough to be run on the event loop itself.

Running apart costs about 150 us and its thread switches; running on the loop holds everybody else
for as long as the inference takes. What a request will take is learnt by its size: the number of
elements of its inputs, to the next power of two.
"""

from collections.abc import Mapping

from ie_serving.tensors import Array

INLINE_MAX_S = 0.001
"""Longest inference that may hold the event loop."""
WEIGHT = 1 / 16
"""Of a new measurement in the running mean: one that was disturbed must not decide."""
CEILING_S = 4 * INLINE_MAX_S


class Pace:
    """Running mean of the time that requests of each size take."""

    def __init__(self, execution: str) -> None:
        self._execution = execution
        self._mean_s: dict[int, float] = {}

    def learn_at_load(self, size: int, seconds: float) -> None:
        """Take a measurement for its own size and all smaller ones."""
        for bucket in range(size.bit_length() + 1):
            self._mean_s[bucket] = min(seconds, CEILING_S)

    def inline(self, size: int) -> bool:
        """Tell whether a request of `size` elements is to run on the loop."""
        if self._execution != "auto":
            return self._execution == "inline"
        return self._mean_s.get(size.bit_length(), CEILING_S) <= INLINE_MAX_S

    def learn(self, size: int, seconds: float) -> None:
        """Take the measurement of a request that shared the engine with no other."""
        bucket = size.bit_length()
        seen = min(seconds, CEILING_S)
        mean = self._mean_s.get(bucket, seen)
        self._mean_s[bucket] = mean + WEIGHT * (seen - mean)


def size_of(inputs: Mapping[str, Array]) -> int:
    """Count the elements of all inputs."""
    return sum([array.size for array in inputs.values()])
