"""Kernels that ask other kernels: who waits for whom, and whether anybody is left to go on.

A kernel that asks another model keeps its runner while it waits. Where all runners of a ring of
kernels are kept so, no call of the ring would ever run. Whichever call would close the ring is
refused. Used on the event loop.
"""

from collections.abc import Collection, Iterable
from contextvars import ContextVar
from typing import Protocol


class Asked(Protocol):
    """A call that a kernel has asked another kernel for.

    Attributes:
        behind: the slots of which one must go on for this call to be answered: its own once it
            runs, else all that are taken of the kernel.
    """

    behind: "Collection[Slot]"


class Slot:
    """A runner that is at work on calls.

    Attributes:
        asks: what these calls ask of other kernels and wait for.
    """

    __slots__ = ("asks",)

    def __init__(self) -> None:
        self.asks: set[Asked] = set()


ASKER: "ContextVar[Slot | None]" = ContextVar("asker", default=None)
"""The slot whose kernel asks, while a model answers it; None for what clients ask."""


def is_stuck(slots: Iterable[Slot]) -> bool:
    """Tell whether every slot waits for one of the others, directly or not, so that none ends.

    A kernel waits for any runner of the one that it asks. So one slot that asks nothing, among all
    that can be reached, is enough for all to go on. Where there are none, what is waited for is no
    slot, as a process that starts.
    """
    left, seen = list(slots), set[Slot]()
    if not left:
        return False
    while left:
        slot = left.pop()
        if not slot.asks:
            return False
        if slot not in seen:
            seen.add(slot)
            left += [each for call in slot.asks for each in call.behind]
    return True
