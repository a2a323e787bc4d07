"""Routes of other servers are there for those who use them, and cost the others nothing."""

import sys
from typing import Any

import pytest

from ie_serving.config.settings import KONDUIT, Graph, ModelConfig, ServerSettings, Settings
from ie_serving.engines.base import EngineOptions
from ie_serving.server.fronts.old_servers import with_old_routes

ROUTES = ("ie_serving.server.fronts.edi.routes", "ie_serving.server.fronts.konduit.routes")
PLAIN = ModelConfig(name="m", base_path="/m")
PIPELINE = ModelConfig(name="default", base_path="k", graph=Graph(text="{}", file=KONDUIT))


class Api:
    """What the routes take of the REST API."""

    invoke = finished = None


@pytest.mark.parametrize(
    ("model", "allow_python", "imported"),
    [
        (PLAIN, False, set()),
        (PLAIN, True, {ROUTES[0]}),
        (PIPELINE, False, {ROUTES[1]}),
        (PIPELINE, True, {*ROUTES}),
    ],
    ids=["neither", "edi", "konduit", "both"],
)
def test_what_is_not_used_is_not_imported(
    model: ModelConfig, allow_python: bool, imported: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ROUTES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    settings = Settings(
        server=ServerSettings(),
        models=(model,),
        engine=EngineOptions(allow_python=allow_python),
    )
    app: Any = object()
    wanted: Any = object()
    api: Any = Api()
    found = with_old_routes(settings, api, app, wanted)
    assert {name for name in ROUTES if name in sys.modules} == imported
    assert (found == (app, wanted)) is (not imported)
