"""Builds the front ends of REST, made on first use, and gRPC's chosen transport and services.

A separate part of the composition root, like `app/engine_stack.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.inference.interface import HandOn
from ie_serving.inference.plane import DataPlane
from ie_serving.models.admin.model_control import ModelControl
from ie_serving.models.served_models import ServedModels
from ie_serving.server.fronts import kserve_v2 as kserve
from ie_serving.server.fronts import openapi, page
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.server.fronts.rest.routes import Front, Routes, Verb
from ie_serving.server.gate.gate import Gate
from ie_serving.server.process.lifecycle import MakeListener
from ie_serving.server.process.ports import GRPC
from ie_serving.server.process.tuning import most_connections
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.grpc.services import CallAdmission, Services
from ie_serving.server.transport.listener import SocketSharing
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.requests import RecentErrors

if TYPE_CHECKING:
    from ie_serving.inference.profiling import Profiler
    from ie_serving.server.fronts.kserve_v2.management import MakeManagement, Management
    from ie_serving.server.fronts.kserve_v2.shared_memory import SharedMemory
    from ie_serving.server.fronts.openapi.openapi_front import CallerOf
    from ie_serving.server.transport.grpc.call import UnaryCall
    from ie_serving.server.transport.grpc.conversation import StreamingCall
    from ie_serving.wire.kserve.regions import NoRegions


class Carrier(NamedTuple):
    """The objects that a gRPC transport is built with, beside the settings and the services.

    Attributes:
        gate: has the certificates.
        limit: limit of the connections of all ports.
        refused: called for each call that ends before its method has begun.
        calls: makes the object that carries calls over this package's own HTTP/2.
        admission: chooses the handler of a call; None: callers are not authenticated.
        sharing: `listener.SocketSharing` between workers; None: no other process accepts
            connections.
    """

    gate: Gate
    limit: ConnectionLimit
    refused: Callable[[BaseException], None]
    calls: Callable[[], tuple[type[UnaryCall], type[StreamingCall]]]
    admission: CallAdmission | None
    sharing: SocketSharing | None = None


def listener(server: ServerSettings, services: Services, carrier: Carrier) -> MakeListener:
    """Return the function that makes the listener of the gRPC port."""
    make = {"http2": _http2, "grpcio": _grpcio}[server.grpc_transport]
    return make(server, services, carrier)


def profiler_services(server: ServerSettings, profiler: Profiler) -> Services:
    """Return `tensorflow.ProfilerService`, where the settings turn it on."""
    if not server.enable_profiler:
        return {}
    from ie_serving.server.fronts.admin import grpc_profiler

    return {grpc_profiler.NAME: grpc_profiler.ProfilerService(profiler).handlers()}


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


def management(control: ModelControl, log: LogPages, server: ServerSettings) -> MakeManagement:
    """Return what makes the answers to all but inferences, over the models of a caller."""

    def made(served: ServedModels) -> Management:
        from ie_serving.server.fronts.kserve_v2.management import (
            KServeRepository,
            Management,
            ServerSettingCalls,
        )

        repository = KServeRepository(served, control, server.reload_by_rpc)
        return Management(repository, ServerSettingCalls(log, server.traces_url), regions())

    @cache
    def regions() -> SharedMemory | NoRegions:
        from ie_serving.server.fronts.kserve_v2.shared_memory import SharedMemory
        from ie_serving.wire.kserve.regions import OFF

        return SharedMemory() if server.shared_memory else OFF

    return made


def kserve_routes(
    over: tuple[DataPlane, ServedModels, Health, Metrics],
    server: ServerSettings,
    hand_on: HandOn,
    management: Callable[[], Management],
) -> Routes[kserve.ParsedPath]:
    """Return the protocol's routes.

    Args:
        over: data plane, models, health of the server, and its metrics.
        server: limits, and the path of the metrics: at a path of this protocol, metrics win.
        hand_on: callback for the outputs of a request, from `inference.request_notes.handing_on`.
        management: makes what answers all but inferences.
    """

    def made() -> Front[kserve.ParsedPath]:
        from ie_serving.server.fronts.admin import cross_site
        from ie_serving.server.fronts.kserve_v2.front import FrontParts, KServeFront
        from ie_serving.server.fronts.kserve_v2.interface import interfaces

        found = interfaces(hand_on, limit_s=server.rest_timeout_s)
        check_site = partial(
            cross_site.check, any_site=server.enable_cors, open_to_all=not server.has_access
        )
        parts = FrontParts(*over, found, management(), check_site, server.max_message_bytes)
        return KServeFront(parts)

    return Routes(kserve.asked, kserve.verb_of, made, server.metrics_paths)


def name_lacking(
    health: Health, lacking: Callable[[], Collection[str]], server: ServerSettings
) -> None:
    """Let probes name the models that are waited for, unless callers have to prove who they are."""
    if not server.has_access:
        health.lacking = lacking


def page_routes(
    settings: Settings,
    storage: StorageOptions,
    served: ServedModels,
    health: Health,
    metrics: Metrics,
    usage: Callable[[], Mapping[str, int] | None] = lambda: None,
) -> Routes[Verb]:
    """Return the page's routes, which match no request if `ServerSettings.page` is off.

    Args:
        settings: switch the page on or off; the page shows them.
        storage: settings that the page shows.
        served: the models.
        health: phase of the server.
        metrics: asked to keep the recent errors.
        usage: gives the budget of models on demand, and what is held of it.
    """
    server = settings.server
    errors = RecentErrors(quotes=server.has_access)
    if server.page:
        metrics.recent = errors

    def made() -> Front[Verb]:
        from ie_serving.server.fronts.page.page_front import PageFront
        from ie_serving.server.fronts.page.state import PageSources

        return PageFront(PageSources(settings, storage, served, health, errors, usage))

    wanted = page.asked if server.page else lambda _: None
    return Routes(wanted, lambda verb: verb, made, server.metrics_paths)


def openapi_routes(
    server: ServerSettings, served: ServedModels, caller_of: CallerOf
) -> Routes[Verb]:
    """Return the routes of the OpenAPI document, and of its viewer if `ServerSettings.page` is on.

    Args:
        server: settings.
        served: the models.
        caller_of: finds the caller of a request.
    """

    def made() -> Front[Verb]:
        from ie_serving.server.fronts.openapi.openapi_front import OpenApiFront

        return OpenApiFront(
            served, caller_of, asks_callers=server.has_access, method_check=server.method_name_check
        )

    wanted = openapi.asked if server.page else openapi.asked_for_document
    return Routes(wanted, lambda verb: verb, made, server.metrics_paths)
