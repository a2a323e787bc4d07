"""A request as a profile has it."""

from collections.abc import Iterator
from typing import NamedTuple


class ProfiledRequest(NamedTuple):
    """One request. Times are of `time.perf_counter()`, 0.0 if unknown.

    Attributes:
        name: of the operation, such as `predict`.
        facts: name and value of what else is known: front end, model, version, code.
        began: when it arrived.
        started: when its inputs were decoded.
        inferred: when its outputs were ready.
        encoded: when they were encoded.
        ended: when its answer was made.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    began: float
    started: float
    inferred: float
    encoded: float
    ended: float

    @property
    def stages(self) -> Iterator[tuple[str, float, float]]:
        """Yield name, begin and end of each stage that is known, in their order."""
        times = (self.began, self.started, self.inferred, self.encoded)
        for place, name in enumerate(("decode", "infer", "encode")):
            if times[place] and times[place + 1]:
                yield name, times[place], times[place + 1]
