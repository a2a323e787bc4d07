"""Names that people give to models and labels: how long they may be."""

from typing import Final

LONGEST: Final = 255
"""Characters of a name: as of a file, from which many have theirs. A name stands in each log line,
series of the metrics and status that is about it. TensorFlow Serving has no bound."""


def too_long(kind: str, name: str) -> str:
    """Say what is wrong with a name that is too long; empty where it is not.

    Args:
        kind: what the name is, such as "label".
        name: of any length.
    """
    if len(name) <= LONGEST:
        return ""
    return (
        f'{kind} "{name[:20]}..." has {len(name)} characters; expected {LONGEST} at most:'
        " give it a shorter name"
    )
