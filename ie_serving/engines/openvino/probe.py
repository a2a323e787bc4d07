"""How long a freshly compiled model takes, measured with zeros."""

import threading
import time

import openvino as ov

from ie_serving.engines.openvino.slot import Slot
from ie_serving.engines.openvino.specs import Ports, zeros
from ie_serving.errors import ServingError

_alone = threading.Lock()
"""Probes of models that load at the same time would measure each other."""

REPEATS = 15
BUDGET_S = 0.05
"""A measurement takes this long, or one inference where that takes longer."""


def latency(ports: Ports, compiled: ov.CompiledModel, rows: int = 1) -> float | None:
    """Measure one inference in seconds, the shortest of several: others may use the machine.

    Args:
        ports: of the compiled model.
        compiled: the model.
        rows: size of each open dimension.

    Returns:
        None where zeros are no valid input, or no shape can be guessed.
    """
    inputs = zeros(ports.inputs, rows)
    if inputs is None:
        return None
    try:
        slot = Slot(compiled.create_infer_request(), ports.inputs, ports.outputs)
        slot.fill(inputs)
        with _alone:
            return _shortest(slot)
    except (RuntimeError, ServingError, MemoryError):
        return None


def _shortest(slot: Slot) -> float:
    first = _timed(slot)  # allocates, and compiles for the shape
    measured: list[float] = []
    while len(measured) < REPEATS and sum(measured) + first < BUDGET_S:
        measured.append(_timed(slot))
    return min(measured, default=first)


def _timed(slot: Slot) -> float:
    started = time.perf_counter()
    slot.run()
    return time.perf_counter() - started
