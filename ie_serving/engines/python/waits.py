"""Detects deadlocks among kernels that call other kernels.

A kernel that calls another model holds its runner while it waits. Where all runners in a cycle of
kernels are held so, no call of the cycle would ever run. The call that would close such a cycle is
refused. Used on the event loop.
"""

from collections.abc import Collection, Iterable
from contextvars import ContextVar
from typing import Protocol


class KernelQuestion(Protocol):
    """A kernel's call of another kernel.

    Attributes:
        behind: one of these slots must make progress for this call to be answered: its own slot
            once it runs, else any taken slot of the called kernel.
    """

    behind: "Collection[Slot]"


class Slot:
    """A runner that is running calls.

    Attributes:
        asks: calls of other kernels that these calls wait for.
    """

    __slots__ = ("asks",)

    def __init__(self) -> None:
        self.asks: set[KernelQuestion] = set()


ASKER: "ContextVar[Slot | None]" = ContextVar("asker", default=None)
"""The slot of the calling kernel, while a model answers it; None for clients' requests."""


def is_stuck(slots: Iterable[Slot]) -> bool:
    """Tell whether every slot waits for one of the others, directly or not, so that none ends.

    A kernel waits for any runner of the kernel that it calls. So one reachable slot that waits for
    no other call is enough for progress. Where no slot is reachable, the wait is for something
    else, such as a process that starts.
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
