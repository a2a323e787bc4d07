"""The life of one version: stages, events, and the table that joins them.

A *stage* is the server's view; a *state* is the clients' view of it. Two tables hold everything:
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
from typing import Final

from ie_serving.core.runtime.states import after
from ie_serving.core.values.versions import State


class VersionStage(enum.Enum):
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
    """Its load takes longer than the limit. The load goes on, since it cannot be interrupted, and
    the version serves if the load succeeds; callers no longer wait for it."""
    ABANDONED = "abandoned"
    """No longer wanted while it loads: freed as soon as the load has ended."""
    DRAINING = "draining"
    """No new requests; waits for those that use it, then its memory is freed."""
    FREED = "freed"
    """The end. The same version found again starts a new life."""


class VersionEvent(enum.Enum):
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
    """Nothing of it is left in memory, or only memory of requests that still run."""


TRANSITIONS: Final[Mapping[VersionStage, Mapping[VersionEvent, VersionStage]]] = {
    VersionStage.QUEUED: {
        VersionEvent.LOAD: VersionStage.FETCHING,
        VersionEvent.DROP: VersionStage.FREED,
    },
    VersionStage.FETCHING: {
        VersionEvent.FETCHED: VersionStage.COMPILING,
        VersionEvent.FAIL: VersionStage.FAILED,
        VersionEvent.EXPIRE: VersionStage.OVERDUE,
        VersionEvent.DROP: VersionStage.ABANDONED,
    },
    VersionStage.COMPILING: {
        VersionEvent.COMPILED: VersionStage.WARMING,
        VersionEvent.FAIL: VersionStage.FAILED,
        VersionEvent.EXPIRE: VersionStage.OVERDUE,
        VersionEvent.DROP: VersionStage.ABANDONED,
    },
    VersionStage.WARMING: {
        VersionEvent.READY: VersionStage.SERVING,
        VersionEvent.FAIL: VersionStage.FAILED,
        VersionEvent.EXPIRE: VersionStage.OVERDUE,
        VersionEvent.DROP: VersionStage.ABANDONED,
    },
    VersionStage.FAILED: {
        VersionEvent.LOAD: VersionStage.FETCHING,
        VersionEvent.DROP: VersionStage.FREED,
    },
    # No FAIL: whatever fails while it serves is the fault of one request.
    VersionStage.OVERDUE: {
        VersionEvent.FETCHED: VersionStage.OVERDUE,
        VersionEvent.COMPILED: VersionStage.OVERDUE,
        VersionEvent.READY: VersionStage.SERVING,
        VersionEvent.FAIL: VersionStage.FAILED,
        VersionEvent.DROP: VersionStage.ABANDONED,
    },
    VersionStage.SERVING: {VersionEvent.DROP: VersionStage.DRAINING},
    # The reports of a load that cannot be interrupted. No DROP: it was dropped already.
    VersionStage.ABANDONED: {
        VersionEvent.FETCHED: VersionStage.ABANDONED,
        VersionEvent.COMPILED: VersionStage.ABANDONED,
        VersionEvent.READY: VersionStage.DRAINING,  # it is in memory after all, and has to be freed
        VersionEvent.FAIL: VersionStage.FREED,
    },
    VersionStage.DRAINING: {VersionEvent.FREED: VersionStage.FREED},
    VersionStage.FREED: {},
}

STATE_OF: Final[Mapping[VersionStage, State]] = {
    VersionStage.QUEUED: State.START,
    VersionStage.FETCHING: State.LOADING,
    VersionStage.COMPILING: State.LOADING,
    VersionStage.WARMING: State.LOADING,
    VersionStage.FAILED: State.LOADING,
    VersionStage.OVERDUE: State.LOADING,
    VersionStage.SERVING: State.AVAILABLE,
    VersionStage.ABANDONED: State.UNLOADING,
    VersionStage.DRAINING: State.UNLOADING,
    VersionStage.FREED: State.END,
}

AWAITING_LOAD = frozenset({VersionStage.QUEUED, VersionStage.FAILED})
"""Stages in which a load may begin."""

LIMITED = frozenset({VersionStage.FETCHING, VersionStage.COMPILING, VersionStage.WARMING})
"""Stages in which the time of a load may run out."""

NOT_LOADED = frozenset({VersionStage.FAILED, VersionStage.OVERDUE})
"""Stages in which a load has not come to a good end, and others may stand in for the version."""

SETTLED = frozenset({VersionStage.SERVING, VersionStage.FREED, *NOT_LOADED})
"""Stages not worth waiting for: no work is under way, or it takes too long."""


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
        self.stage = VersionStage.QUEUED
        self.error = ""

    @property
    def state(self) -> State:
        """The state that clients see."""
        return STATE_OF[self.stage]

    def apply(self, event: VersionEvent, error: str = "") -> VersionStage:
        """Move on, and return the new stage.

        Args:
            event: event that happened.
            error: the cause, with FAIL and EXPIRE.

        Raises:
            IllegalMove: the table has no such move; nothing has changed.
        """
        self.stage = following = after(TRANSITIONS, self.stage, event, f"version {self.version}")
        if following in NOT_LOADED:
            self.error = error or self.error  # a step of a load that is overdue has none
        elif self.state is not State.LOADING:
            self.error = ""
        return following
