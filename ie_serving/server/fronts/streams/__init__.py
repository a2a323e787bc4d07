"""Streams over both ports; their modules are imported when a client opens the first one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.server.fronts.rest.routes import Front, Routes
from ie_serving.server.transport.grpc.services import RpcMethod, StreamingMethod
from ie_serving.server.transport.http1.messages import RequestHead
from ie_serving.telemetry.metrics.page import PagePart

if TYPE_CHECKING:  # modules of a port are imported only if that port is on
    from ie_serving.inference.streams import OpenStreams
    from ie_serving.server.fronts.streams.grpc_service import GrpcStreams

NAME: Final = "ie_serving.StreamService"
METHOD: Final = "PredictStream"
_END: Final = b":stream"
"""End of the path of a stream over REST."""


class LazyStreams:
    """The streams of one worker, over both ports.

    Args of the constructor:
        show: adds lines to the metrics page; see `Metrics.show`.
        tells_callers: whether models may see the caller.
    """

    def __init__(self, show: Callable[[PagePart], None], *, tells_callers: bool) -> None:
        self._show = show
        self._tells_callers = tells_callers
        self._stopping = False
        self._open: OpenStreams | None = None

    def grpc(
        self, plane: DataPlane, interface: Interface[bytes]
    ) -> dict[str, dict[str, RpcMethod]]:
        """Return the service over one data plane."""

        def made() -> GrpcStreams:
            from ie_serving.inference.streams import StreamReplies
            from ie_serving.server.fronts.streams.grpc_service import OWN, GrpcStreams

            streams = StreamReplies(plane, interface, self.opened)
            return GrpcStreams(streams, OWN, tells_callers=self._tells_callers)

        return {NAME: {METHOD: later(made)}}

    def rest(
        self, plane: DataPlane, interface: Interface[Any], limit: int, *, any_origin: bool
    ) -> Routes[bool]:
        """Return the routes of WebSockets; for the arguments see `Upgrades`."""

        def made() -> Front[bool]:
            from ie_serving.inference.streams import StreamReplies
            from ie_serving.server.fronts.streams.upgrade import Upgrades

            streams = StreamReplies(plane, interface, self.opened)
            return Upgrades(plane, streams, limit=limit, any_origin=any_origin)

        return Routes(_wants_stream, lambda _: ("stream", ""), made)

    @property
    def opened(self) -> OpenStreams:
        """All open streams, over both ports."""
        if self._open is None:
            from ie_serving.inference.streams import OpenStreams

            self._open = OpenStreams()
            self._show(self._open.metrics.lines)
            if self._stopping:
                self._open.stop()
        return self._open

    def set_ready(self, ready: bool) -> None:
        """At a stop, let streams answer the requests they have received and end; open no more."""
        self._stopping = not ready
        if self._stopping and self._open is not None:
            self._open.stop()


def later(make: Callable[[], GrpcStreams]) -> StreamingMethod:
    """Return a method whose streams are answered by what `make` returns, made for the first."""
    made = cache(make)
    return StreamingMethod(lambda requests, context: made().converse(requests, context))


def _wants_stream(head: RequestHead) -> bool | None:
    return True if head.method in ("GET", "HEAD") and head.path.endswith(_END) else None
