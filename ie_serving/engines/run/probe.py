"""How long a freshly compiled model takes, measured with zeros."""

import threading
import time
from collections.abc import Callable, Mapping

from ie_serving.core.errors import ServingError
from ie_serving.core.tensors import Array
from ie_serving.engines.run.request import InferRequest

_alone = threading.Lock()
"""Probes of models that load at the same time would measure each other."""

REPEATS = 15
"""Most inferences of one measurement. The shortest counts: of so many, at least one is undisturbed
even on a busy machine."""
BUDGET_S = 0.05
"""Seconds that a measurement takes, or one inference where that takes longer."""


def latency(
    make: Callable[[], InferRequest],
    inputs: Mapping[str, Array] | None,
    failures: tuple[type[Exception], ...],
) -> float | None:
    """Measure one inference in seconds, the shortest of several: others may use the machine.

    Args:
        make: gives an infer request of the compiled model.
        inputs: for it; None where no shape can be guessed.
        failures: types of the engine's errors.

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
            return _shortest(request, inputs)
    except refused:
        return None


def _shortest(request: InferRequest, inputs: Mapping[str, Array]) -> float:
    # The shortest, not the mean: whatever else the machine does only ever makes a run longer.
    first = _timed(request, inputs)  # allocates, and compiles for the shape
    measured: list[float] = []
    while len(measured) < REPEATS and sum(measured) + first < BUDGET_S:
        measured.append(_timed(request, inputs))
    return min(measured, default=first)


def _timed(request: InferRequest, inputs: Mapping[str, Array]) -> float:
    request.fill(inputs)
    started = time.perf_counter()
    request.run()
    return time.perf_counter() - started
