"""The shadow of a model: which version its outputs are compared with, and when. Pure."""

from dataclasses import dataclass
from typing import Final

SHARE: Final = 0.001
"""Most of the time that comparisons take: a tenth of the hundredth that a 99th percentile leaves
out. With a half of it, that percentile was 14 % longer: it became the 99.5th of all else."""
SETTLE_S: Final = 0.1
"""Least age of a copy that is compared: its reply has been sent then, also a large one."""
LONGEST_REST_S: Final = 600.0
"""Longest pause, so that one slow answer does not end the comparisons; an older copy is dropped."""
LOOK_S: Final = 0.02
"""Seconds between two looks at versions that are in use."""
MOST_COPIES: Final = 16
MOST_COPIED_BYTES: Final = 1 << 26
"""Copies of a model, of requests under way too, and their tensors: those beyond are not made."""


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """Which requests of a model a second version answers too, and what becomes of differences.

    Attributes:
        model: the model of that version; empty for the same model.
        version: its number; None for the one that requests get, or the labelled one.
        label: its label; None for none.
        sampling_rate: share of the requests, 0 to 1.
        tolerance: difference that numbers may have, as in `core.values.difference.drifts`.
        path: prefix of the paths of the files with different answers; empty: no files.
        max_samples: requests in these files.
    """

    model: str = ""
    version: int | None = None
    label: str | None = None
    sampling_rate: float
    tolerance: float = 1e-3  # that of `difference`, which imports numpy
    path: str = ""
    max_samples: int = 100


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known when a copy may be compared; times are those of one clock.

    Attributes:
        now: the time.
        taken: time at which the copy was taken.
        rested: time at which the pause behind the last comparison ends.
        is_spare: whether each version of the two models takes one request more without a wait.
        is_alone: whether nothing is compared for another model.
    """

    now: float
    taken: float
    rested: float
    is_spare: bool
    is_alone: bool


def wait_s(moment: Moment) -> float:
    """Give the seconds until the next look; 0: compare now."""
    wait = max(moment.taken + SETTLE_S, moment.rested) - moment.now
    if wait > 0:
        return wait
    return 0.0 if moment.is_spare and moment.is_alone else LOOK_S


def rest_s(took_s: float, models: int) -> float:
    """Give the pause behind a comparison that took so long, of each of `models` with a shadow."""
    return min(took_s * (models / SHARE - 1), LONGEST_REST_S)


def has_room(copies: int, copied_bytes: int, nbytes: int) -> bool:
    """Tell whether there may be one more copy, of `nbytes`."""
    fits = not copies or copied_bytes + nbytes <= MOST_COPIED_BYTES
    return fits and copies < MOST_COPIES
