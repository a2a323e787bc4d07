"""Steps that write their inputs to the log, or count them in metrics, and return them unchanged."""

import logging
import re
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ie_serving.core.values.tensors import Array, Arrays, Specs
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger("ie_serving.steps")
"""The logger of steps."""

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}

MOST_SHOWN = 20
"""Most elements of a tensor in a log line; more are left out."""
LONGEST_SHOWN = 80
"""Most bytes of a string in a log line; it is cut there, since it may be a whole picture."""


class ValueWatch(Protocol):
    """Counts values for the metrics, of what `is_graph` says is a graph."""

    is_graph: bool

    def numbers(
        self, step: str, item: str, /, count: int, total: float, least: float, greatest: float
    ) -> None:
        """Count numbers of an item: how many, their sum, the least and the greatest."""

    def texts(self, step: str, item: str, texts: Mapping[str, int], /) -> None:
        """Count how often each text of an item comes."""


def log_step(
    inputs: Arrays, *, level: str, show: str, keys: "re.Pattern[str]", step: str
) -> Arrays:
    """Write a line to the log; see `registry.TABLE`."""
    number = LEVELS[level]
    if log.isEnabledFor(number):
        shown = (
            f"{n} {_array_text(array, show)}" for n, array in inputs.items() if keys.fullmatch(n)
        )
        log.log(number, Event("step passed", step=step, items="; ".join(shown)))
    return inputs


def metrics_step(inputs: Arrays, *, watch: ValueWatch | None, step: str) -> Arrays:
    """Count the inputs' values; see `registry.TABLE`."""
    if watch is None:
        return inputs
    for name, array in inputs.items():
        if array.dtype.kind == "O":
            watch.texts(step, name, Counter(_word(each) for each in array.reshape(-1).tolist()))
            continue
        finite = array[np.isfinite(array)]
        if finite.size:
            total = float(finite.sum(dtype=np.float64))
            ends = float(finite.min()), float(finite.max())
            watch.numbers(step, name, finite.size, total, *ends)
    return inputs


def same(inputs: Specs, **_: object) -> Specs:
    """Give the specs of the inputs."""
    return inputs


def _array_text(array: Array, show: str) -> str:
    form = f"{array.dtype}{list(array.shape)}"
    if show == "keys":
        return form
    first = array.reshape(-1)[:MOST_SHOWN].tolist()
    words = [_word(each) if isinstance(each, bytes) else each for each in first]
    return f"{form} {words}{' ...' if array.size > MOST_SHOWN else ''}"


def _word(data: bytes) -> str:
    return data[:LONGEST_SHOWN].decode("utf-8", "replace")
