"""Answers HTTP probes: whether the process lives, has started, and takes requests.

Source: the health part of the Open Inference Protocol, which load balancers already know. The
counterpart over gRPC is `grpc.health.v1` (`grpc_health.py`).
"""

import enum
import json
import re
from collections.abc import Callable, Collection
from typing import Final
from urllib.parse import unquote_to_bytes

from ie_serving.core.values.requests import ModelSpec

LIVE = "/v2/health/live"
READY = "/v2/health/ready"
STARTUP = "/v2/health/startup"
"""Our addition: the protocol has no startup probe, which Kubernetes uses."""
MOST_NAMES: Final = 10
"""Models in the body of a probe that is not answered with ready: a probe's log keeps few bytes."""
_MODEL = re.compile(rb"/v2/models/([^/]+)(?:/versions/([0-9]{1,18}))?/ready")


def model_asked(path: bytes) -> ModelSpec | None:
    """Return the model whose readiness a path asks for; None for any other path."""
    found = _MODEL.fullmatch(path)
    if found is None:
        return None
    name = unquote_to_bytes(found[1]).decode("utf-8", "replace")
    return ModelSpec(name, int(found[2]) if found[2] else None)


class Phase(enum.Enum):
    """Phase of the process. Each phase follows the one above it, and none returns."""

    STARTING = "starting"
    """Not every model has served yet. Requests are answered: other models may serve already."""
    READY = "ready"
    """The ports are open and every model has served."""
    STOPPING = "stopping"
    """Clients should use another server: each reply closes its connection."""


class Health:
    """The replies to probes.

    Attributes:
        phase: of this process; only `readiness.py` sets it.
        lacking: names the models that readiness waits for; none where callers are asked who they
            are, since probes are not.
    """

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.lacking: Callable[[], Collection[str]] = tuple

    def live_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a liveness probe."""
        return 200, b'{"live":true}'

    def startup_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a startup probe: whether the process was ever ready."""
        started = self.phase is not Phase.STARTING
        return (200, b'{"started":true}') if started else (503, b'{"started":false}')

    def ready_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a readiness probe."""
        if self.phase is Phase.READY:
            return 200, b'{"ready":true}'
        names = self.lacking() if self.phase is Phase.STARTING else ()
        if not names:
            return 503, b'{"ready":false}'
        # Clients of the protocol read `ready` alone.
        told = {"ready": False, "waits_for": [*names][:MOST_NAMES], "models": len(names)}
        return 503, json.dumps(told, separators=(",", ":")).encode()

    def model_reply(self, model: ModelSpec, serves: bool) -> tuple[int, bytes]:
        """HTTP status and JSON body of a readiness probe of one configured model."""
        ready = serves and self.phase is not Phase.STOPPING
        return (200 if ready else 503), json.dumps({"name": model.name, "ready": ready}).encode()
