"""Writes profiled requests as TensorFlow's profiler writes a trace: an XSpace. Pure.

Source: xplane.proto of TensorFlow, and the names by which TensorBoard finds the host's threads.
"""

from collections.abc import Sequence
from typing import Final

from ie_serving.telemetry.request.entry import ProfiledRequest
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

_HOST: Final = "/host:CPU"
"""Name of the plane whose lines TensorBoard shows as threads of the host."""
_PS: Final = 1e12


def written(requests: Sequence[ProfiledRequest], epoch_s: float, host: str) -> bytes:
    """Write a trace.

    Args:
        requests: requests that have ended.
        epoch_s: start of their clock in seconds since 1970.
        host: the server's name.
    """
    space = messages.XSpace(hostnames=[host])
    plane = space.planes.add(id=1, name=_HOST)
    ordered = sorted(requests, key=lambda each: each.began)
    zero = ordered[0].began if ordered else 0.0
    names: dict[str, int] = {}
    facts: dict[str, int] = {}
    free_at: list[float] = []
    for request in ordered:
        # Events of a line lie within one another, so requests at the same time need several.
        lane = next((at for at, end in enumerate(free_at) if end <= request.began), len(free_at))
        if lane == len(free_at):
            free_at.append(0.0)
            plane.lines.add(
                id=lane + 1, name=f"requests {lane + 1}", timestamp_ns=round((epoch_s + zero) * 1e9)
            )
        free_at[lane] = request.ended
        line = plane.lines[lane]
        event = _event(line, names, request.name, request.began - zero, request.ended - zero)
        for name, value in request.facts:
            event.stats.add(metadata_id=_number(facts, name), str_value=value)
        for stage, began, ended in request.stages:
            _event(line, names, stage, began - zero, ended - zero)
    for name, number in names.items():
        plane.event_metadata[number].id, plane.event_metadata[number].name = number, name
    for name, number in facts.items():
        plane.stat_metadata[number].id, plane.stat_metadata[number].name = number, name
    return bytes(space.SerializeToString())


def _event(line: Proto, names: dict[str, int], name: str, began: float, ended: float) -> Proto:
    return line.events.add(
        metadata_id=_number(names, name),
        offset_ps=round(began * _PS),
        duration_ps=max(0, round((ended - began) * _PS)),
    )


def _number(numbers: dict[str, int], name: str) -> int:
    return numbers.setdefault(name, len(numbers) + 1)
