"""The residency policy: names the step that makes room for a load. Pure: numbers in, a step out."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

HEAD_OF_LINE_S: Final = 1.0
"""Seconds for which further loads wait behind one that waits for models in use, so that they do not
take the room that becomes free. Requests that take longer may take minutes: then loads that fit go
on."""
LONGEST_S: Final = 60.0
"""Seconds that a load waits for models in use, such as by streams."""


class Resident(NamedTuple):
    """One model in memory that was loaded on demand.

    Attributes:
        name: model name.
        size: bytes that it is believed to hold.
        last_use: time at which a request last began to use it, by a clock that only grows.
        in_use: whether a request uses it now.
        pinned: whether it stays, once loaded.
    """

    name: str
    size: int
    last_use: float
    in_use: bool = False
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Evict:
    """Unload this model."""

    name: str


class BusyAction(enum.Enum):
    """Models in use hold the room, and may be unloaded later: what the load does meanwhile."""

    WAIT = "wait"  # further loads wait behind it
    STEP_ASIDE = "step aside"  # further loads that fit go on
    GIVE_UP = "give up"  # it is refused


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse the load: it does not fit, even with all else unloaded.

    Attributes:
        most: bytes that there would be for it.
    """

    most: int


@dataclass(frozen=True, slots=True)
class Trim:
    """Give the heaps' free memory back: models that were unloaded have left it there."""


RoomStep = Evict | BusyAction | Refuse | Trim


def make_room(
    residents: Iterable[Resident],
    free: int,
    needed: int,
    limit: int,
    spare: int = 0,
    waited_s: float = 0.0,
    trimmed: int = 0,
) -> RoomStep | None:
    """Name the next step before a load; None: there is room.

    The model whose last use is longest ago goes first; one in use, or pinned, never goes. What
    models hold is an estimate: they go one by one, whatever their sizes say, until there is room.

    Args:
        residents: the models in memory that were loaded on demand, by their last use, longest ago
            first; iterated if there is no room, up to the first that may go.
        free: bytes of the budget that are not used; negative where it is exceeded.
        needed: bytes that the load is believed to take.
        limit: bytes of the budget that all of these models but pinned ones may hold.
        spare: bytes that it may take beyond them: idle models go for these, too, but no load waits
            or is refused.
        waited_s: seconds since the load began to wait for room.
        trimmed: bytes that there may be for the load once the heaps are trimmed, which is done
            before a load is refused; 0: they were trimmed.
    """
    step = _fit(residents, free, needed, limit, spare, waited_s)
    return Trim() if isinstance(step, Refuse) and needed <= trimmed > 0 else step


def _fit(
    residents: Iterable[Resident], free: int, needed: int, limit: int, spare: int, waited_s: float
) -> Evict | BusyAction | Refuse | None:
    if needed + spare <= free:
        return None
    fits = needed <= free
    if needed > limit and not fits:
        return Refuse(max(0, limit))
    step: BusyAction | Refuse | None = None if fits else Refuse(max(0, free))
    for each in residents:
        if each.pinned:
            continue
        if not each.in_use:
            return Evict(each.name)
        step = None if fits else _while_busy(waited_s)
    return step


def _while_busy(waited_s: float) -> BusyAction:
    if waited_s > LONGEST_S:
        return BusyAction.GIVE_UP
    return BusyAction.STEP_ASIDE if waited_s > HEAD_OF_LINE_S else BusyAction.WAIT


def measured_size(taken: int, stored: int, most: int | None) -> int:
    """Give the bytes that a model is believed to hold, after its load.

    Args:
        taken: bytes that the load took, with what its compilation held for a while. None seem to be
            taken by a load into memory that others have just left.
        stored: bytes of its files.
        most: bytes of the budget for all models, in a process that is within it: a model that fits
            must not be refused the next time. None in others.
    """
    return max(taken if most is None else min(taken, most), stored)


def idle_too_long(residents: Iterable[Resident], before: float) -> list[str]:
    """Name the models that no request has used since `before`."""
    return [
        each.name
        for each in residents
        if not (each.in_use or each.pinned) and each.last_use < before
    ]
