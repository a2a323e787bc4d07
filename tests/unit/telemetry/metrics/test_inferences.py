"""An inference that was not for a client is forgotten, and no client's with it."""

import pytest

from ie_serving.telemetry.metrics.inferences import Inferences


@pytest.mark.parametrize(("beside", "left"), [(0, 3), (1, 5), (4, 8)])
def test_no_inference_of_a_client_is_forgotten(beside: int, left: int) -> None:
    times = Inferences()
    for _ in range(3):
        times.ran.append(0.1)
    mark = times.mark
    for _ in range(1 + beside):
        times.ran.append(0.2)
        times.waited(0.1)
    times.forget_from(mark)
    assert len(times.durations) == len(times.waits) == left
