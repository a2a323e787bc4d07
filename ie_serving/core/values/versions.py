"""What clients are told of one version of a model: its public state, and why its load failed."""

import enum
from dataclasses import dataclass


class State(enum.IntEnum):
    """Public states and their numbers. Source: ModelVersionStatus.State, get_model_status.proto."""

    START = 10
    """Wanted; its load has not begun."""
    LOADING = 20
    """Being fetched, compiled and warmed up; or failed, with an error, and to be tried again."""
    AVAILABLE = 30
    """Requests are answered."""
    UNLOADING = 40
    """No new requests; those that use it are waited for, then it is freed."""
    END = 50
    """Gone. The same version found again starts a new life."""


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """What clients are told of one version.

    Attributes:
        version: version number.
        state: public state.
        error: why its load failed; else empty.
        remark: what a version that serves lacks: its signatures that are left out, with the causes.
    """

    version: int
    state: State
    error: str
    remark: str = ""

    @property
    def message(self) -> str:
        """The text of the status."""
        return self.error or self.remark
