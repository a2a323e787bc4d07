"""Whether a model keeps its state between requests: what the layer for it may be told.

Field names are those of OpenVINO Model Server.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """What one model does with state (`ReadValue`, `Assign`) that outlives an inference."""

    stateful: bool = False
    """Keep state for each sequence of requests; otherwise each request begins with the initial."""

    idle_sequence_cleanup: bool = True
    """Drop a sequence without a request between two scans of the server."""

    max_sequence_number: int = 500
    """Sequences of one version at a time; a further one is refused."""

    low_latency_transformation: bool = False
    """Make state of what loops and recurrent operations carry from round to round."""
