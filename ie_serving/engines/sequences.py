"""Options of the sequence layer, which keeps a model's state between requests.

Field names are those of OpenVINO Model Server.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """How one model's state (`ReadValue`, `Assign`) is kept beyond an inference."""

    stateful: bool = False
    """Keep state for each sequence of requests; otherwise each request begins with the initial."""

    idle_sequence_cleanup: bool = True
    """Drop a sequence without a request between two scans of the server."""

    max_sequence_number: int = 500
    """Sequences of one version at a time; a further one is refused."""

    low_latency_transformation: bool = False
    """Turn the values that loops and recurrent operations carry between iterations into state."""
