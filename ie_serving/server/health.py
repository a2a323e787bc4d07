"""Whether the process lives and whether it takes requests, for probes over HTTP.

Source: the health part of the Open Inference Protocol, which load balancers already know. gRPC has
`grpc.health.v1` beside it (`grpc_health.py`).
"""

LIVE = "/v2/health/live"
READY = "/v2/health/ready"


class Health:
    """Readiness of this process.

    Attributes:
        ready: True from the moment that the ports are open until the process begins to stop.
    """

    def __init__(self) -> None:
        self.ready = False

    def live_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a liveness probe."""
        return 200, b'{"live":true}'

    def ready_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a readiness probe."""
        return (200, b'{"ready":true}') if self.ready else (503, b'{"ready":false}')
