"""The life of one version: states, events, and the table that joins them.

`VersionLife.apply` is the only code that assigns a state. An event that the table does not have
for the present state raises and changes nothing. `docs/design.md` prints its diagram from the
table.

A version that failed to load stays LOADING with its error, since it will be tried again. TF
Serving shows END there; the clients of `ie_serving` 2020 wait for LOADING.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType


class State(enum.IntEnum):
    """What clients see. Source: ModelVersionStatus.State, get_model_status.proto."""

    START = 10
    """Aspired; nothing fetched."""
    LOADING = 20
    """Being fetched, compiled and warmed up; or failed, with an error, and to be tried again."""
    AVAILABLE = 30
    """Handles are given out."""
    UNLOADING = 40
    """No new handles; draining, then freeing."""
    END = 50
    """Gone, for good: the same version found again starts a new life."""


class Event(enum.Enum):
    """What can happen to a version."""

    LOAD = "load"
    """A load begins, the first or a further one."""
    READY = "ready"
    """Loaded and warmed up."""
    FAIL = "fail"
    """The load did not succeed."""
    DROP = "drop"
    """No longer aspired."""
    FREED = "freed"
    """Nothing of it is left in memory."""


TRANSITIONS: Mapping[State, Mapping[Event, State]] = MappingProxyType(
    {
        State.START: {Event.LOAD: State.LOADING, Event.DROP: State.END},
        State.LOADING: {
            Event.LOAD: State.LOADING,
            Event.READY: State.AVAILABLE,
            Event.FAIL: State.LOADING,
            Event.DROP: State.UNLOADING,
        },
        State.AVAILABLE: {Event.DROP: State.UNLOADING},
        State.UNLOADING: {Event.FREED: State.END},
        State.END: {},
    }
)


class IllegalEvent(RuntimeError):
    """The table has no such event in the present state: a defect of the caller."""


class VersionLife:
    """State of one version, and why its last load failed.

    Attributes:
        version: version number.
        state: present state.
        error: cause of the last failed load; empty otherwise.
    """

    __slots__ = ("error", "state", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.state = State.START
        self.error = ""

    def apply(self, event: Event, error: str = "") -> State:
        """Move on, and return the new state.

        Args:
            event: what happened.
            error: the cause, with FAIL. It stays until the version loads or is dropped.

        Raises:
            IllegalEvent: the table has no such move; nothing has changed.
        """
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise IllegalEvent(f"version {self.version}: {event.value} in {self.state.name}")
        if event is not Event.LOAD:
            self.error = error
        self.state = following
        return following
