"""Status of one version of a model as clients see it: its public state, and its load error."""

import enum
from dataclasses import dataclass, replace
from typing import Final

NOT_LOADED: Final = "not loaded: the first request loads it"
"""Message of a version that is known and waits for its model to be asked for."""
NOT_APPLIED: Final = "newer settings are not applied: "
"""Begins the last remark on each version of a model whose newer settings do not serve."""


class State(enum.IntEnum):
    """Public states and their numbers. Source: ModelVersionStatus.State, get_model_status.proto."""

    START = 10
    """Wanted; its load has not begun."""
    LOADING = 20
    """Being fetched, compiled and warmed up; or failed, with an error, and waiting for a retry."""
    AVAILABLE = 30
    """Requests are answered."""
    UNLOADING = 40
    """Takes no new requests; waits for those that use it, then it is freed."""
    END = 50
    """Gone. The same version found again starts a new life."""


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """Status of one version as clients see it.

    Attributes:
        version: version number.
        state: public state.
        error: reason why its load failed; else empty.
        remark: further remarks: signatures that are left out, the share of split traffic, what it
            answers as a shadow.
    """

    version: int
    state: State
    error: str
    remark: str = ""

    @property
    def message(self) -> str:
        """The text of the status."""
        return self.error or self.remark


def remarked(status: VersionStatus, remark: str) -> VersionStatus:
    """Give a status with one remark more; empty for none."""
    if not remark:
        return status
    return replace(status, remark="; ".join(filter(None, (status.remark, remark))))


def without_unapplied(message: str) -> str:
    """Give the message of a status without the remark that `NOT_APPLIED` begins."""
    return message.partition(NOT_APPLIED)[0].removesuffix("; ")
