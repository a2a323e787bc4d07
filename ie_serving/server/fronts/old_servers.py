"""Routes of other servers, put before the REST API where a model may be asked by them."""

from collections.abc import Awaitable, Callable

from ie_serving.config.settings import Settings
from ie_serving.core.requests import ModelSpec
from ie_serving.server.transport.http1.messages import App, Reply, Request, RequestHead

Wanted = Callable[[RequestHead], tuple[str, str]]
"""Tells the verb of a request, and the model that it names, if any."""
Invoke = Callable[[Request, ModelSpec, float], Awaitable[Reply]]
"""Runs a model on the body of a request that arrived at that `time.perf_counter()`."""
Phrase = Callable[[Exception], Reply]
"""Makes a reply of an error, as `{"error": ...}`."""


def with_old_routes(
    settings: Settings, app: App, wanted: Wanted, invoke: Invoke, phrase: Phrase
) -> tuple[App, Wanted]:
    """Give what answers every request, and what tells the verb and the model of one.

    Args:
        settings: say which routes may be asked; the others cost nothing.
        app: the REST API, which gets what no other route takes.
        wanted: of the REST API.
        invoke: as `:invoke` does.
        phrase: as the REST API does.
    """
    if settings.engine.allow_python:  # without it no package of EDI is run
        from ie_serving.server.fronts.edi.routes import EdiRoutes
        from ie_serving.server.fronts.edi.routes import wanting as edi_wanting

        app, wanted = EdiRoutes(app, invoke, phrase).answer, edi_wanting(wanted)
    if any(model.is_konduit for model in settings.models):
        from ie_serving.server.fronts.konduit.routes import KonduitRoutes
        from ie_serving.server.fronts.konduit.routes import wanting as konduit_wanting

        most = settings.server.max_message_bytes
        app = KonduitRoutes(app, invoke, phrase, most).answer
        wanted = konduit_wanting(wanted)
    return app, wanted
