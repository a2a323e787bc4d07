"""A back-off grows, is bounded, and keeps those that failed together apart."""

from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.runtime.waits import Backoff

chances = st.floats(0, 1, allow_nan=False)


@given(failures=st.integers(0, 10_000), chance=chances)
def test_a_delay_is_half_to_all_of_a_doubling_limited_wait(failures: int, chance: float) -> None:
    backoff = Backoff(first_s=0.2, longest_s=10)
    longest = min(10, 0.2 * 2 ** max(0, min(failures - 1, 100)))
    assert longest / 2 <= backoff.delay_s(failures, chance) <= longest
