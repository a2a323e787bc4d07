"""Names of drivers: those that are built in, and those of other packages."""

from collections.abc import Collection

from ie_serving.config.values.faults import fault
from ie_serving.core.values.nearest import nearest
from ie_serving.engines.drivers import is_known, names


def name(value: object, place: str, beside: Collection[str] = ()) -> str:
    """Read the name of a driver; `null` may come as JSON's and YAML's word for nothing.

    Args:
        value: given.
        place: of it, for errors.
        beside: words that the caller takes beside these, for errors.
    """
    given = "null" if value is None else value.strip() if isinstance(value, str) else ""
    for word in (given.lower(), given):
        if word and is_known(word):
            return word
    known = sorted({*names(), *beside})
    raise fault(place, value, f"one of {', '.join(known)}{nearest(given, known)}")
