"""Where a kernel stands, `FILE[:NAME]`, and in how many processes it runs."""

from ie_serving.config.values.faults import Faults, fault
from ie_serving.config.values.numbers import integer, timeout
from ie_serving.config.values.structures import mapping
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.kernels import Instances, Place

MOST_PROCESSES = 1000
"""More would be a slip of the keyboard: each takes tens of megabytes."""

FORM = "FILE.py or FILE.py:NAME, NAME a class, function or object in it"


def place(value: object, where: str) -> Place:
    """Read a file of Python, and what of it is the kernel."""
    found = Place.parse(value)
    if found is None:
        raise fault(where, value, FORM)
    return found


def instances(value: object, where: str) -> Instances:
    """Read how many processes there may be."""
    given = mapping(value, where, 'an object such as {"min": 1, "max": 4, "idle_seconds": 60}')
    known = {"min": integer(1, MOST_PROCESSES), "max": integer(1, MOST_PROCESSES)}
    faults = Faults()
    for key in sorted(given.keys() - {*known, "idle_seconds"}):
        faults.add(f"{where}.{key}", "unknown; expected min, max and idle_seconds")
    counts = {k: faults.take(known[k], given[k], f"{where}.{k}") for k in known if k in given}
    idle_s = given.get("idle_seconds", Instances.idle_seconds)
    idle_seconds = faults.take(timeout, idle_s, f"{where}.idle_seconds")
    faults.check()
    least = counts.get("min") or Instances.min
    most = counts.get("max") or max(least, Instances.max)
    if most < least:
        raise ConfigError([f"{where}: max is {most}, below min, {least}; raise max or lower min"])
    return Instances(min=least, max=most, idle_seconds=idle_seconds or Instances.idle_seconds)


def file(value: object, where: str) -> Place:
    """Read a file of Python alone."""
    found = Place.parse(value)
    if found is None or found.name:
        raise fault(where, value, "FILE.py")
    return found
