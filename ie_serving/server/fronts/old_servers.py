"""Routes of other servers, put before the REST API where a model may be asked by them."""

from collections.abc import Callable

from ie_serving.config.settings import Settings
from ie_serving.server.fronts.tfs.rest import RestApi, refusal
from ie_serving.server.transport.http1.messages import App, RequestHead

Wanted = Callable[[RequestHead], tuple[str, str]]
"""Tells the verb of a request, and the model that it names, if any."""


def with_old_routes(
    settings: Settings, api: RestApi, app: App, wanted: Wanted
) -> tuple[App, Wanted]:
    """Give what answers every request, and what tells the verb and the model of one.

    Args:
        settings: say which routes may be asked; the others cost nothing.
        api: runs the models, and ends each reply as its own.
        app: gets what no other route takes.
        wanted: of `app`.
    """
    if settings.engine.allow_python:  # without it no package of EDI is run
        from ie_serving.server.fronts.edi.routes import EdiRoutes
        from ie_serving.server.fronts.edi.routes import wanting as edi_wanting

        app = EdiRoutes(app, api.invoke, refusal, api.finished).answer
        wanted = edi_wanting(wanted)
    if any(model.is_konduit for model in settings.models):
        from ie_serving.server.fronts.konduit.routes import KonduitRoutes
        from ie_serving.server.fronts.konduit.routes import wanting as konduit_wanting

        most = settings.server.max_message_bytes
        app = KonduitRoutes(app, api.invoke, refusal, api.finished, most).answer
        wanted = konduit_wanting(wanted)
    return app, wanted
