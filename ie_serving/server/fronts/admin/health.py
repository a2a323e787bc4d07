"""Whether the process lives and whether it takes requests, for probes over HTTP.

Source: the health part of the Open Inference Protocol, which load balancers already know. gRPC has
`grpc.health.v1` beside it (`grpc_health.py`).
"""

import enum

LIVE = "/v2/health/live"
READY = "/v2/health/ready"


class Phase(enum.Enum):
    """How far the process is. Each phase follows the one above it, and none comes back."""

    STARTING = "starting"
    """Not every model has served yet. Requests that come are answered: others may serve."""
    READY = "ready"
    """The ports are open and every model has served."""
    STOPPING = "stopping"
    """Clients should ask another server: each reply ends its connection."""


class Health:
    """What probes are told.

    Attributes:
        phase: of this process; `readiness.py` alone sets it.
    """

    def __init__(self) -> None:
        self.phase = Phase.STARTING

    def live_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a liveness probe."""
        return 200, b'{"live":true}'

    def ready_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a readiness probe."""
        ready = self.phase is Phase.READY
        return (200, b'{"ready":true}') if ready else (503, b'{"ready":false}')
