"""gRPC's channel arguments: `name=value,name=value`, as TensorFlow Serving's users give them."""

from collections.abc import Mapping
from typing import Any, Final

from ie_serving.core.settings.faults import fault
from ie_serving.core.settings.numbers import whole
from ie_serving.core.values.integers import INT32_MAX

IDLE: Final = "grpc_max_connection_idle_s"
AGE_ARGUMENTS: Final = {
    "grpc_max_connection_age_s": "grpc.max_connection_age_ms",
    "grpc_max_connection_age_grace_s": "grpc.max_connection_age_grace_ms",
    IDLE: "grpc.max_connection_idle_ms",
}
"""Fields of the server's settings that arguments mean, and those arguments, in milliseconds."""

SHORTEST_S: Final = 0.001
"""What 0 ms become: as a setting 0 sets no limit, while as an argument it means at once."""


def arguments(value: object, place: str) -> Mapping[str, int | str]:
    """Read channel arguments; those that are whole numbers become such."""
    found: dict[str, int | str] = {}
    for part in str(value).split(","):
        name, equals, text = part.strip().partition("=")
        if not name or not equals:
            raise fault(place, value, "name=value, more of them after commas")
        number = whole(text)
        found[name] = text if number is None else number
    return found


def settle(given: dict[str, Any], transport: str) -> list[str]:
    """Let arguments and the settings of the same meaning agree; a setting that is given counts.

    Args:
        given: fields of the server's settings; changed.
        transport: what carries gRPC; grpcio takes every argument.

    Returns:
        Warnings: the arguments that have no effect.
    """
    found: dict[str, int | str] = dict(given.get("grpc_channel_arguments", {}))
    for field, name in AGE_ARGUMENTS.items():
        milliseconds = found.get(name)
        if given.get(field):
            found[name] = int(given[field] * 1000)
        # gRPC's way to say "no limit" is its largest number.
        elif isinstance(milliseconds, int) and 0 <= milliseconds < INT32_MAX:
            given[field] = max(milliseconds / 1000, SHORTEST_S)
    if found.get(AGE_ARGUMENTS[IDLE]) == INT32_MAX:  # the one that has a limit by default
        given.setdefault(IDLE, 0.0)
    given["grpc_channel_arguments"] = found
    if transport == "grpcio":
        return []
    return [
        f"grpc_channel_arguments: {name} has no effect over this server's own HTTP/2"
        for name in sorted(found.keys() - AGE_ARGUMENTS.values())
    ]
