"""The transition policy: names one model's next step. Pure: snapshots in, an action out.

Source of the idea: AvailabilityPreservingPolicy of TensorFlow Serving. Stricter in one point: a
version that serves is given up only for a wanted one that serves, never merely because two
unwanted ones do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ie_serving.core.values.versions import State


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version as the policy sees it.

    Attributes:
        version: version number.
        state: present state.
        aspired: whether it is wanted.
        due: whether its load may begin: at rest in storage, not loading already, and any
            back-off after a failure is over.
    """

    version: int
    state: State
    aspired: bool
    due: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """Begin to load, for the first time or again."""

    version: int


@dataclass(frozen=True, slots=True)
class Unload:
    """Give up: quiesce, drain, free."""

    version: int


Action = Load | Unload


def preserve_availability(stream: Sequence[Snapshot]) -> Action | None:
    """Name the next step: free memory before taking more, and never give up availability.

    A version that never served is unloaded as soon as it is unwanted. A serving version is unloaded
    when no version is wanted at all, or when a wanted version serves in its place. Clients that
    name no version get the highest serving one: a lower wanted version, kept by a label for
    instance, replaces nothing while a higher one is yet to load. The highest wanted loads first.
    """
    # Unloading comes first: it frees memory for the next load.
    unwanted = [s.version for s in stream if not s.aspired and _may_go(s, stream)]
    if unwanted:
        return Unload(min(unwanted))
    waiting = [s.version for s in stream if s.aspired and s.due]
    return Load(max(waiting)) if waiting else None


def _may_go(surplus: Snapshot, stream: Sequence[Snapshot]) -> bool:
    if surplus.state is not State.AVAILABLE:
        # UNLOADING and END are on their way or gone; a second DROP would be refused by the table.
        return surplus.state in (State.START, State.LOADING)
    wanted = [s.version for s in stream if s.aspired]
    serving = [s.version for s in stream if s.aspired and s.state is State.AVAILABLE]
    if not wanted or not serving:
        return not wanted
    return surplus.version < max(serving) or surplus.version > max(wanted)
