"""Options of the sequence layer, which keeps a model's state between requests.

Field names are those of OpenVINO Model Server.
"""

from dataclasses import dataclass

from ie_serving.core.settings.declaration import BOOLEAN, whole


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """How one model's state (`ReadValue`, `Assign`) is kept beyond an inference."""

    stateful: bool = BOOLEAN.setting(
        False,
        "keep the model's state between the requests of a sequence, which name it by"
        " sequence_id; without it each request begins with the initial state",
        ovms="stateful",
    )
    idle_sequence_cleanup: bool = BOOLEAN.setting(
        True,
        "drop sequences without a request between two scans of the server; needs stateful",
        ovms="idle_sequence_cleanup",
    )
    max_sequence_number: int = whole(0, 2**32 - 1).setting(
        500,
        "sequences that a version keeps at a time; a further one gets UNAVAILABLE or 503; needs"
        " stateful",
        "10000",
        ovms="max_sequence_number",
    )
    low_latency_transformation: bool = BOOLEAN.setting(
        False,
        "make state of what loops and recurrent operations carry from round to round; needs"
        " stateful",
        ovms="low_latency_transformation",
    )
