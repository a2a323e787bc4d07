"""Chooses the transport of gRPC, and its optional services, from the settings, and builds them.

A separate part of the composition root, like `app/engine_stack.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ie_serving.config.settings import ServerSettings
from ie_serving.server.gate.gate import Gate
from ie_serving.server.process.lifecycle import MakeListener
from ie_serving.server.process.ports import GRPC
from ie_serving.server.process.tuning import most_connections
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.grpc.services import Admission, Services
from ie_serving.server.transport.listener import Sharing

if TYPE_CHECKING:  # imported when the port is on
    from ie_serving.inference.profiling import Profiler
    from ie_serving.server.transport.grpc.call import UnaryCall
    from ie_serving.server.transport.grpc.conversation import StreamingCall


class Carrier(NamedTuple):
    """The objects that a gRPC transport is built with, beside the settings and the services.

    Attributes:
        gate: has the certificates.
        limit: of the connections of all ports.
        refused: called for each call that ends before its method has begun.
        calls: makes the object that carries calls over this package's own HTTP/2.
        admission: chooses the handler of a call; None: callers are not authenticated.
        sharing: see `listener.Sharing`; None: no other process accepts connections.
    """

    gate: Gate
    limit: ConnectionLimit
    refused: Callable[[BaseException], None]
    calls: Callable[[], tuple[type[UnaryCall], type[StreamingCall]]]
    admission: Admission | None
    sharing: Sharing | None = None


def listener(server: ServerSettings, services: Services, carrier: Carrier) -> MakeListener:
    """Return the function that makes the listener of the gRPC port."""
    make = {"http2": _http2, "grpcio": _grpcio}[server.grpc_transport]
    return make(server, services, carrier)


def profiler_services(server: ServerSettings, profiler: Profiler) -> Services:
    """Return `tensorflow.ProfilerService`, where the settings turn it on."""
    if not server.enable_profiler:
        return {}
    from ie_serving.server.fronts.admin import grpc_profiler

    return {grpc_profiler.NAME: grpc_profiler.ProfilerService(profiler).answers()}


def _http2(server: ServerSettings, services: Services, carrier: Carrier) -> MakeListener:
    # Imported here: some thirty modules, which would delay the first load of a model.
    from ie_serving.server.transport.grpc.http2_server import Http2Server

    return partial(
        Http2Server,
        services,
        max_message_bytes=server.max_message_bytes,
        refused=carrier.refused,
        busy_poll_s=server.busy_poll_us / 1e6,
        max_age_s=server.grpc_max_connection_age_s,
        age_grace_s=server.grpc_max_connection_age_grace_s,
        max_idle_s=server.grpc_max_connection_idle_s,
        limit=carrier.limit,
        secure=carrier.gate.secure(GRPC),
        admission=carrier.admission,
        calls=carrier.calls(),
        sharing=carrier.sharing,
    )


def _grpcio(server: ServerSettings, services: Services, carrier: Carrier) -> MakeListener:
    from ie_serving.server.transport.grpc.grpcio_server import GrpcioServer

    return partial(
        GrpcioServer,
        services,
        max_message_bytes=server.max_message_bytes,
        max_idle_s=server.grpc_max_connection_idle_s,
        max_connections=most_connections(server.max_connections),
        arguments=server.grpc_channel_arguments,
        identity=carrier.gate.identity(GRPC),
        admission=carrier.admission,
    )
