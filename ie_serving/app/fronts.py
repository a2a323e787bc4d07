"""Builds the routes of the REST front ends that are made on first use.

A separate part of the composition root, like `app/transports.py`.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.admin.model_control import ModelControl
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.server.fronts.kserve_v2 import routes as kserve
from ie_serving.server.fronts.openapi import routes as openapi
from ie_serving.server.fronts.page import routes as page
from ie_serving.server.fronts.rest.routes import Front, Routes, Verb
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.recent_errors import RecentErrors

if TYPE_CHECKING:
    from ie_serving.server.fronts.kserve_v2.management import MakeManagement, Management
    from ie_serving.server.fronts.kserve_v2.shared_memory import SharedMemory
    from ie_serving.server.fronts.openapi.openapi_front import CallerOf
    from ie_serving.wire.kserve.regions import Off

HandOn = Callable[[Interface[Any]], Interface[Any]]


def management(control: ModelControl, log: LogPages, server: ServerSettings) -> "MakeManagement":
    """Return what makes the answers to all but inferences, over the models of a caller."""

    def made(served: ServedModels) -> "Management":
        from ie_serving.server.fronts.kserve_v2.management import (
            Management,
            Repository,
            ServerSettingCalls,
        )

        repository = Repository(served, control, server.reload_by_rpc)
        return Management(repository, ServerSettingCalls(log, server.traces_url), regions())

    @cache
    def regions() -> "SharedMemory | Off":
        from ie_serving.server.fronts.kserve_v2.shared_memory import SharedMemory
        from ie_serving.wire.kserve.regions import OFF

        return SharedMemory() if server.shared_memory else OFF

    return made


def kserve_routes(
    over: tuple[DataPlane, ServedModels, Health, Metrics],
    server: ServerSettings,
    hand_on: HandOn,
    management: "Callable[[], Management]",
) -> Routes[kserve.Asked]:
    """Return the protocol's routes.

    Args:
        over: data plane, models, health of the server, and its metrics.
        server: limits, and the path of the metrics: at a path of this protocol, metrics win.
        hand_on: see `inference.observed.handing_on`.
        management: makes what answers all but inferences.
    """

    def made() -> Front[kserve.Asked]:
        from ie_serving.server.fronts.admin import cross_site
        from ie_serving.server.fronts.kserve_v2.front import KServeFront, Parts
        from ie_serving.server.fronts.kserve_v2.interface import interfaces

        found = interfaces(hand_on, limit_s=server.rest_timeout_s)
        check_site = partial(
            cross_site.check, any_site=server.enable_cors, open_to_all=not server.has_access
        )
        parts = Parts(*over, found, management(), check_site, server.max_message_bytes)
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
        from ie_serving.server.fronts.page.page_front import PageFront, PageSources

        return PageFront(PageSources(settings, storage, served, health, errors, usage))

    wanted = page.asked if server.page else lambda _: None
    return Routes(wanted, lambda verb: verb, made, server.metrics_paths)


def openapi_routes(
    server: ServerSettings, served: ServedModels, caller_of: "CallerOf"
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
            served,
            caller_of,
            asks_callers=server.has_access,
            method_check=server.method_name_check,
        )

    wanted = openapi.asked if server.page else openapi.asked_for_document
    return Routes(wanted, lambda verb: verb, made, server.metrics_paths)
