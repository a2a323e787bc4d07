"""The stages of a version's child process, and the transitions between them."""

import enum
from collections.abc import Mapping
from types import MappingProxyType


class Stage(enum.Enum):
    """Where the process is."""

    STARTING = "starting"
    """It imports TensorFlow and loads the model. Requests wait."""
    SERVING = "serving"
    """It takes requests."""
    PAUSING = "pausing"
    """It has ended, and is started again after a while. Requests are refused."""
    CLOSED = "closed"
    """The version is unloaded, or its first start failed."""


class Event(enum.Enum):
    """Events that move the process to another stage."""

    READY = "ready"
    DIED = "died"
    DUE = "due"
    CLOSE = "close"


TRANSITIONS: Mapping[Stage, Mapping[Event, Stage]] = MappingProxyType(
    {
        Stage.STARTING: {
            Event.READY: Stage.SERVING,
            Event.DIED: Stage.PAUSING,
            Event.CLOSE: Stage.CLOSED,
        },
        Stage.SERVING: {Event.DIED: Stage.PAUSING, Event.CLOSE: Stage.CLOSED},
        Stage.PAUSING: {Event.DUE: Stage.STARTING, Event.CLOSE: Stage.CLOSED},
        # The process ends because of the close, and a load may end after it.
        Stage.CLOSED: {
            Event.READY: Stage.CLOSED,
            Event.DIED: Stage.CLOSED,
            Event.DUE: Stage.CLOSED,
            Event.CLOSE: Stage.CLOSED,
        },
    }
)
