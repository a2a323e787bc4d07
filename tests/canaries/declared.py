"""All declared faults, in the order of the page."""

import sys

from tests.canaries import front_ends, integers, memory, values
from tests.canaries.fault import FAULTS

ROOMS = (memory, values, front_ends, integers)
__all__ = ["FAULTS", "ROOMS"]

IS_WRONG, IS_GONE = 10, 11
"""Exit codes: neither is that of Python after an exception."""


def tell(name: str) -> None:
    """Run a canary as a process of its own, whose exit code tells what it saw."""
    sys.exit(IS_WRONG if FAULTS[name].canary() else IS_GONE)
