"""Builds the routes of the page at `/` for the composition root."""

from ie_serving.config.settings import Settings
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.page.parts import PageSources
from ie_serving.server.fronts.page.routes import asked
from ie_serving.server.fronts.rest.routes import Front, Routes, Verb
from ie_serving.server.transport.http1.messages import RequestHead
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.recent_errors import RecentErrors


def page_routes(
    settings: Settings,
    storage: StorageOptions,
    served: ServedModels,
    health: Health,
    metrics: Metrics,
) -> Routes[Verb]:
    """Return the page's routes, which match no request if `ServerSettings.page` is off.

    Args:
        settings: switch the page on or off; the page shows them.
        storage: settings that the page shows.
        served: the models.
        health: phase of the server.
        metrics: asked to keep the recent errors.
    """
    server = settings.server
    errors = RecentErrors(quotes=server.has_access)
    if server.page:
        metrics.recent = errors

    def made() -> Front[Verb]:
        from ie_serving.server.fronts.page.page_front import PageFront

        return PageFront(PageSources(settings, storage, served, health, errors))

    return Routes(asked if server.page else _never, _itself, made, server.metrics_paths)


def _never(_: RequestHead) -> Verb | None:
    return None


def _itself(found: Verb) -> Verb:
    return found
