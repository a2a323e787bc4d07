"""The residency policy: names the step that makes room for a load. Pure: numbers in, a step out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Resident(NamedTuple):
    """One model in memory that was loaded on demand.

    Attributes:
        name: model name.
        size: bytes that it is believed to hold.
        last_use: when a request last began to use it, by a clock that only grows.
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


@dataclass(frozen=True, slots=True)
class Await:
    """Wait: models in use hold the room, and may be unloaded later."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse the load: it does not fit, even with all else unloaded.

    Attributes:
        most: bytes that there would be for it.
    """

    most: int


RoomStep = Evict | Await | Refuse


def make_room(
    residents: Iterable[Resident], free: int, needed: int, limit: int, spare: int = 0
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
    """
    if needed + spare <= free:
        return None
    fits = needed <= free
    if needed > limit and not fits:
        return Refuse(max(0, limit))
    step: RoomStep | None = None if fits else Refuse(max(0, free))
    for each in residents:
        if each.pinned:
            continue
        if not each.in_use:
            return Evict(each.name)
        step = None if fits else Await()
    return step


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
