"""How far the configuration has come: what a worker leaves to the one that replaces it."""

import json
import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ie_serving.models.configuration import ModelConfig
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Applied:
    """How far the configuration has come.

    Attributes:
        desired: what was applied last, whether it came from the file or by RPC.
        serving: the models as they are served: of one whose successor does not serve yet, what it
            was before.
        seen: digest of the file's content that was applied last, or that was there at the start.
    """

    desired: tuple[ModelConfig, ...]
    serving: tuple[ModelConfig, ...]
    seen: str | None


class Place(Protocol):
    """Holds bytes that outlive the worker; `server.process.handover.Handover` is one."""

    def read(self) -> bytes:
        """Give what was written last; empty in the first worker of a server."""

    def write(self, data: bytes, /) -> None:
        """Replace what was written before. Raises: OSError, and what was written before stays."""


class Places(Protocol):
    """Two of them, since one changes seldom and is large, and the other with each load."""

    @property
    def configuration(self) -> Place:
        """Holds an `Applied`."""

    @property
    def answering(self) -> Place:
        """Holds the version of each model that answers, by the model's name."""


def read(place: Place) -> Applied | None:
    """Give what an earlier worker has left; None in the first worker of a server."""
    left = place.read()
    # Not JSON: a configuration holds policies and options of many classes. These bytes were written
    # by a process of this server alone, into a file without a name.
    applied: Applied | None = pickle.loads(left) if left else None
    return applied


def leave(place: Place, applied: Applied) -> None:
    """Leave `applied` in place of what was left before; where that fails it is logged."""
    _write(place, pickle.dumps(applied))


def read_answering(place: Place) -> dict[str, int]:
    """Give the versions that answered when an earlier worker died, by the model's name."""
    found: dict[str, int] = json.loads(place.read() or b"{}")
    return found


def leave_answering(place: Place, versions: Mapping[str, int]) -> None:
    """Leave those that answer now. As `leave`."""
    _write(place, json.dumps(versions).encode())


def _write(place: Place, data: bytes) -> None:
    try:
        place.write(data)
    except OSError as error:
        log.warning(Event("configuration not handed over", cause=error.strerror))
