"""Stores the configuration's state for the worker that replaces this one."""

import json
import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import ModelRepository
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Applied:
    """The state of the configuration.

    Attributes:
        desired: the last applied configuration, from the file or by RPC.
        serving: the models as served: for a model whose new configuration does not serve yet, the
            old one.
        seen: digest of the file's content that was applied last, or read at the start.
        repositories: directories of models that the file names.
    """

    desired: tuple[ModelConfig, ...]
    serving: tuple[ModelConfig, ...]
    seen: str | None
    repositories: tuple[ModelRepository, ...] = ()


class Place(Protocol):
    """Holds bytes that outlive the worker; `server.process.handover.Handover` is one."""

    def read(self) -> bytes:
        """Give the last written state; empty in the first worker of a server."""

    def write(self, data: bytes, /) -> None:
        """Replace the written state. Raises: OSError, and the old state stays."""


class Places(Protocol):
    """Two places: the configuration is large and changes seldom, the answering versions often."""

    @property
    def configuration(self) -> Place:
        """Holds an `Applied`."""

    @property
    def answering(self) -> Place:
        """Holds the version of each model that answers, by the model's name."""


def read(place: Place) -> Applied | None:
    """Give the state of an earlier worker; None in the first worker of a server."""
    left = place.read()
    # Not JSON: a configuration has policies and options of many classes. Only processes of this
    # server write these bytes, to a file without a name.
    applied: Applied | None = pickle.loads(left) if left else None
    return applied


def leave(place: Place, applied: Applied) -> None:
    """Replace the stored state by `applied`; log a failure."""
    _write(place, pickle.dumps(applied))


def read_answering(place: Place) -> dict[str, int]:
    """Give the versions that answered when an earlier worker died, by the model's name."""
    found: dict[str, int] = json.loads(place.read() or b"{}")
    return found


def leave_answering(place: Place, versions: Mapping[str, int]) -> None:
    """Replace the stored answering versions; log a failure."""
    _write(place, json.dumps(versions).encode())


def _write(place: Place, data: bytes) -> None:
    try:
        place.write(data)
    except OSError as error:
        log.warning(Event("configuration not handed over", cause=error.strerror))
