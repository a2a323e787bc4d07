"""The life of one version: stages, events, and the table that joins them.

A *stage* is what the server knows; a *state* is what clients see of it. Two tables hold everything:
`TRANSITIONS` says which event leads from which stage to which, `STATE_OF` which state clients see
in each stage. `VersionLife.apply` is the only code that assigns a stage. An event that the table
does not have for the present stage raises and changes nothing, so a defect shows where it happens.

A load cannot be interrupted: its thread is in the store's client or in the engine. A version that
is dropped meanwhile is therefore ABANDONED until its load has ended either way. The reports of that
load still arrive, so the table has a move for each of them.

A version that failed to load is LOADING for clients, with its error, since it will be tried again.
TensorFlow Serving shows END there; the clients of `ie_serving` 2020 wait for LOADING.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType

from ie_serving.core.values.versions import State


class Stage(enum.Enum):
    """Where a version is in its life."""

    QUEUED = "queued"
    """Wanted; its load has not begun."""
    FETCHING = "fetching"
    """Its files are being copied, or wait for a thread that copies them."""
    COMPILING = "compiling"
    """The engine reads and compiles its files."""
    WARMING = "warming"
    """Its recorded requests are replayed."""
    SERVING = "serving"
    """It answers requests."""
    FAILED = "failed"
    """Its last load failed; nothing of it is in memory. It waits for the next try."""
    OVERDUE = "overdue"
    """Its load takes longer than it may. It goes on, since it cannot be interrupted, and the
    version serves if it ends well; nobody waits for it any more."""
    ABANDONED = "abandoned"
    """No longer wanted while it loads: freed as soon as the load has ended."""
    DRAINING = "draining"
    """No new requests; waits for those that use it, then its memory is freed."""
    FREED = "freed"
    """The end. The same version found again starts a new life."""


class Event(enum.Enum):
    """What can happen to a version."""

    LOAD = "load"
    """A load begins, the first or a further one."""
    FETCHED = "fetched"
    """Its files are here."""
    COMPILED = "compiled"
    """The engine has compiled it."""
    READY = "ready"
    """It is warmed up: the load has succeeded."""
    FAIL = "fail"
    """The load has failed, in whichever step."""
    EXPIRE = "expire"
    """The time that a load may take is over."""
    DROP = "drop"
    """It is no longer wanted."""
    FREED = "freed"
    """Nothing of it is left in memory, or what is left belongs to requests that still run."""


TRANSITIONS: Mapping[Stage, Mapping[Event, Stage]] = MappingProxyType(
    {
        Stage.QUEUED: {Event.LOAD: Stage.FETCHING, Event.DROP: Stage.FREED},
        Stage.FETCHING: {
            Event.FETCHED: Stage.COMPILING,
            Event.FAIL: Stage.FAILED,
            Event.EXPIRE: Stage.OVERDUE,
            Event.DROP: Stage.ABANDONED,
        },
        Stage.COMPILING: {
            Event.COMPILED: Stage.WARMING,
            Event.FAIL: Stage.FAILED,
            Event.EXPIRE: Stage.OVERDUE,
            Event.DROP: Stage.ABANDONED,
        },
        Stage.WARMING: {
            Event.READY: Stage.SERVING,
            Event.FAIL: Stage.FAILED,
            Event.EXPIRE: Stage.OVERDUE,
            Event.DROP: Stage.ABANDONED,
        },
        Stage.FAILED: {Event.LOAD: Stage.FETCHING, Event.DROP: Stage.FREED},
        # No FAIL: whatever fails while it serves is the fault of one request.
        Stage.OVERDUE: {
            Event.FETCHED: Stage.OVERDUE,
            Event.COMPILED: Stage.OVERDUE,
            Event.READY: Stage.SERVING,
            Event.FAIL: Stage.FAILED,
            Event.DROP: Stage.ABANDONED,
        },
        Stage.SERVING: {Event.DROP: Stage.DRAINING},
        # The reports of a load that cannot be interrupted. No DROP: it was dropped already.
        Stage.ABANDONED: {
            Event.FETCHED: Stage.ABANDONED,
            Event.COMPILED: Stage.ABANDONED,
            Event.READY: Stage.DRAINING,  # it is in memory after all, and has to be freed
            Event.FAIL: Stage.FREED,
        },
        Stage.DRAINING: {Event.FREED: Stage.FREED},
        Stage.FREED: {},
    }
)

STATE_OF: Mapping[Stage, State] = MappingProxyType(
    {
        Stage.QUEUED: State.START,
        Stage.FETCHING: State.LOADING,
        Stage.COMPILING: State.LOADING,
        Stage.WARMING: State.LOADING,
        Stage.FAILED: State.LOADING,
        Stage.OVERDUE: State.LOADING,
        Stage.SERVING: State.AVAILABLE,
        Stage.ABANDONED: State.UNLOADING,
        Stage.DRAINING: State.UNLOADING,
        Stage.FREED: State.END,
    }
)

AWAITING_LOAD = frozenset({Stage.QUEUED, Stage.FAILED})
"""Stages in which a load may begin."""

LIMITED = frozenset({Stage.FETCHING, Stage.COMPILING, Stage.WARMING})
"""Stages in which the time of a load may run out."""

NOT_LOADED = frozenset({Stage.FAILED, Stage.OVERDUE})
"""Stages in which a load has not come to a good end, and others may stand in for the version."""

SETTLED = frozenset({Stage.SERVING, Stage.FREED, *NOT_LOADED})
"""Stages in which nothing is to be waited for: no work is under way, or it takes too long."""


class IllegalEvent(RuntimeError):
    """The table has no such event in the present stage: a defect of the caller."""


class VersionLife:
    """Stage of one version, and why its last load failed.

    Attributes:
        version: version number.
        stage: present stage.
        error: cause of the last failed load, until the version serves or is dropped; else empty.
    """

    __slots__ = ("error", "stage", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.stage = Stage.QUEUED
        self.error = ""

    @property
    def state(self) -> State:
        """What clients see."""
        return STATE_OF[self.stage]

    def apply(self, event: Event, error: str = "") -> Stage:
        """Move on, and return the new stage.

        Args:
            event: what happened.
            error: the cause, with FAIL and EXPIRE.

        Raises:
            IllegalEvent: the table has no such move; nothing has changed.
        """
        following = TRANSITIONS[self.stage].get(event)
        if following is None:
            raise IllegalEvent(f"version {self.version}: {event.value} while {self.stage.value}")
        self.stage = following
        if following in NOT_LOADED:
            self.error = error or self.error  # a step of a load that is overdue has none
        elif self.state is not State.LOADING:
            self.error = ""
        return following
