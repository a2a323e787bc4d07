"""What is done for a request, noted in its entry: inferences, steps of a graph, shared batches.

Only where traces or `Server-Timing` are on: records of versions, and what times the steps, are then
these. The times are those that the metrics count.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ie_serving.telemetry.metrics.inferences import Inferences
from ie_serving.telemetry.request.entry import CURRENT, MOST_PARTS, Entry, Part, current, now
from ie_serving.telemetry.request.trace_context import Trace

if TYPE_CHECKING:
    _Floats = array[float]
else:  # before Python 3.12 it takes no type
    _Floats = array


class Noting(Inferences):
    """The record of one version, whose inferences are noted in the entries of their requests.

    Args of the constructor:
        model, version: whose record it is.
    """

    def __init__(self, model: str, version: int) -> None:
        super().__init__()
        ran = self.ran = self._durations.noted = _Ran("d")
        ran.model, ran.version = model, version

    def waited(self, seconds: float) -> None:
        """See `Inferences`; called right after the inference was appended to `ran`."""
        super().waited(seconds)
        entry = current() if seconds else None
        # Where no more are kept, the last one may be another inference.
        if entry is not None and entry.parts and len(entry.parts) < MOST_PARTS:
            entry.parts[-1] = entry.parts[-1]._replace(waited_s=seconds)


class _Ran(_Floats):
    """Takes the seconds of each inference, in the context of whoever has asked for it."""

    model: str
    version: int

    def append(self, seconds: float, /) -> None:
        """See `Inferences.ran`. Inferences of requests without entries pass here, too."""
        super().append(seconds)
        entry = CURRENT.get()
        if entry is not None and entry.parts is not None and not entry.ended:
            # From a lane this comes later, when its thread has read the outputs as well.
            ended = entry.inferred or now()
            began = ended - seconds
            entry.add(Part("infer", self.model, self.version, began, ended))


Record = Callable[[str, float], None]
"""Told of each run of a step that succeeded, and the seconds that it took."""


def of_steps(record: Record) -> Record:
    """Tell the entry of the request of each step as well."""

    def noted(step: str, seconds: float) -> None:
        record(step, seconds)
        entry = current()
        if entry is not None and entry.parts is not None:
            ended = entry.inferred or now()  # the last one is told of behind the reply
            entry.add(Part("step", step, None, ended - seconds, ended))

    return noted


def share(own: Entry, members: Sequence[tuple[Entry, float]], trace: Trace | None) -> None:
    """Note what was done for a batch in the entries of its requests.

    Args:
        own: of the batch.
        members: the requests, each with the time since which it was gathered.
        trace: the span of the batch.
    """
    for entry, since in members:
        for part in own.parts or () if not entry.ended else ():
            entry.add(part._replace(waited_s=part.began - since, batch=trace))
