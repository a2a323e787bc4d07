"""Limit for the length of model names and labels."""

from typing import Final

LONGEST: Final = 255
"""Characters of a name; the limit of file names, which many model names are taken from. Each log
line, metric and status of a model contains its name. TensorFlow Serving has no limit."""


def too_long(kind: str, name: str) -> str:
    """Describe the fault of a too long name; empty if it is not too long.

    Args:
        kind: kind of the name, such as "label".
        name: of any length.
    """
    if len(name) <= LONGEST:
        return ""
    return (
        f'{kind} "{name[:20]}..." has {len(name)} characters; expected {LONGEST} at most:'
        " give it a shorter name"
    )
