"""`tensorflow.ProfilerService`: a trace of the server's requests, as TensorBoard asks for it.

Source: profiler_service.proto of TensorFlow. TensorFlow Serving writes the trace into a directory
that the client names; here the reply holds it, and the client writes it there.
"""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.inference.profiling import MOST, Profiler
from ie_serving.server.transport.grpc.services import Buffer, CallContext, Unary
from ie_serving.telemetry.request.entry import ProfiledRequest, epoch
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs import xspace
from ie_serving.wire.tfs.request_messages import parse

NAME: Final = "tensorflow.ProfilerService"
LONGEST_MS: Final = 600_000
"""Milliseconds of the longest profile."""


class ProfilerService:
    """Answers the calls. Lives on one event loop.

    Args of the constructor:
        profiler: records the requests.
    """

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._ends: dict[str, asyncio.Event] = {}

    def handlers(self) -> dict[str, Unary]:
        """Return the methods by name."""
        return {"Profile": self._profile, "Terminate": self._terminate, "Monitor": self._monitor}

    async def _profile(self, payload: Buffer, _: CallContext) -> bytes:
        request = parse(messages.ProfileRequest, payload)
        duration_ms = request.opts.duration_ms or request.duration_ms
        found = await self._recorded(duration_ms, request.session_id)
        reply = messages.ProfileResponse(empty_trace=not found)
        if found:
            host = request.host_name or socket.gethostname()
            data = await asyncio.to_thread(xspace.written, found, epoch(), host)
            reply.tool_data.add(name="xplane.pb", data=data)
        return bytes(reply.SerializeToString())

    async def _terminate(self, payload: Buffer, _: CallContext) -> bytes:
        end = self._ends.get(parse(messages.TerminateRequest, payload).session_id)
        if end is not None:
            end.set()
        return bytes(messages.TerminateResponse().SerializeToString())

    async def _monitor(self, payload: Buffer, _: CallContext) -> bytes:
        request = parse(messages.MonitorRequest, payload)
        found = await self._recorded(request.duration_ms, "")
        text = _summary(found, request.duration_ms / 1000)
        return bytes(messages.MonitorResponse(data=text).SerializeToString())

    async def _recorded(self, duration_ms: int, session: str) -> list[ProfiledRequest]:
        if not 0 < duration_ms <= LONGEST_MS:
            wanted = f"expected 1 to {LONGEST_MS} milliseconds"
            raise InvalidRequest(f"duration_ms is {duration_ms}; {wanted}")
        end = self._ends[session] = asyncio.Event()
        try:
            with self._profiler.recording() as record, suppress(asyncio.TimeoutError):
                await asyncio.wait_for(end.wait(), duration_ms / 1000)
        finally:
            if self._ends.get(session) is end:
                del self._ends[session]
        return record


def _summary(requests: Sequence[ProfiledRequest], seconds: float) -> str:
    """Say what was answered, as `tf.profiler.experimental.client.monitor` prints it."""
    took = sorted(each.ended - each.began for each in requests)
    failed = sum(("code", "OK") not in each.facts for each in requests)
    number = f"{len(took)}{' or more' if len(took) == MOST else ''}"
    lines = [
        f"Requests: {number} in {seconds:g} s, {len(took) / seconds:.1f} a second",
        f"Failed: {failed}",
    ]
    if took:
        median, late = took[len(took) // 2] * 1e3, took[len(took) * 99 // 100] * 1e3
        lines.append(f"Latency in ms: median {median:.2f}, 99th percentile {late:.2f}")
    return "\n".join(lines) + "\n"
