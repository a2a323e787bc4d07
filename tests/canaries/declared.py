"""All declared faults, in the order of the page."""

from tests.canaries import front_ends, integers, memory, values
from tests.canaries.fault import FAULTS

ROOMS = (memory, values, front_ends, integers)
__all__ = ["FAULTS", "ROOMS"]
