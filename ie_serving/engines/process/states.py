"""The stages of a version's child process, and the transitions between them."""

import enum
from collections.abc import Mapping
from types import MappingProxyType


class ProcessStage(enum.Enum):
    """Where the process is."""

    STARTING = "starting"
    """It imports TensorFlow and loads the model. Requests wait."""
    SERVING = "serving"
    """It takes requests."""
    PAUSING = "pausing"
    """It has ended, and is started again after a while. Requests are refused."""
    CLOSED = "closed"
    """The version is unloaded, or its first start failed."""


class ProcessEvent(enum.Enum):
    """Events that move the process to another stage."""

    READY = "ready"
    DIED = "died"
    DUE = "due"
    CLOSE = "close"


TRANSITIONS: Mapping[ProcessStage, Mapping[ProcessEvent, ProcessStage]] = MappingProxyType(
    {
        ProcessStage.STARTING: {
            ProcessEvent.READY: ProcessStage.SERVING,
            ProcessEvent.DIED: ProcessStage.PAUSING,
            ProcessEvent.CLOSE: ProcessStage.CLOSED,
        },
        ProcessStage.SERVING: {
            ProcessEvent.DIED: ProcessStage.PAUSING,
            ProcessEvent.CLOSE: ProcessStage.CLOSED,
        },
        ProcessStage.PAUSING: {
            ProcessEvent.DUE: ProcessStage.STARTING,
            ProcessEvent.CLOSE: ProcessStage.CLOSED,
        },
        # The process ends because of the close, and a load may end after it.
        ProcessStage.CLOSED: {
            ProcessEvent.READY: ProcessStage.CLOSED,
            ProcessEvent.DIED: ProcessStage.CLOSED,
            ProcessEvent.DUE: ProcessStage.CLOSED,
            ProcessEvent.CLOSE: ProcessStage.CLOSED,
        },
    }
)
