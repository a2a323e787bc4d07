"""Routes of other servers are there for those who use them, and cost the others nothing."""

import sys
from typing import Any

import pytest

from ie_serving.compat.konduit import FILE
from ie_serving.compat.stfs import STFS
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import NotFound
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ConfiguredGraph, ModelConfig
from ie_serving.server.fronts.other_servers import AppChain, front_of
from ie_serving.server.transport.http1.messages import RequestHead
from tests.tables import named_by

EDI, KONDUITS, KIBERNETIKA, STFS_FRONT = ROUTES = [
    f"ie_serving.compat.{each}"
    for each in ("edi.routes", "konduit.routes", "kibernetika.predict_route", "stfs.front.front")
]
PIPELINE = ModelConfig(name="default", base_path="k", graph=ConfiguredGraph(text="{}", file=FILE))
NEVER: Any = None


class Api:
    """What the routes take of the REST API."""

    def answer(self) -> None: ...


def front(*models: ModelConfig, allow_python: bool = False, **server: Any) -> AppChain:
    settings = Settings(
        server=ServerSettings(**server),
        models=models,
        engine=EngineOptions(allow_python=allow_python),
    )
    api: Any = Api()
    return front_of(settings, api, NEVER, NEVER, secure=False)


def head(method: str, path: str) -> RequestHead:
    return RequestHead(method, path.encode(), b"", "1.1", (), {}, 0, True, False)


@pytest.mark.parametrize(
    ("models", "given", "imported"),
    [
        ((), {}, set()),
        ((), {"allow_python": True}, {EDI}),
        ((PIPELINE,), {}, {KONDUITS}),
        ((PIPELINE,), {"allow_python": True}, {EDI, KONDUITS}),
        ((), {"answering_model": "default"}, {KIBERNETIKA}),
        ((), {"old_front": STFS}, {STFS_FRONT}),
    ],
    ids=["none", "edi", "konduit", "both", "kibernetika", "stfs"],
)
def test_routes_that_are_not_used_are_not_imported(
    models: tuple[ModelConfig, ...],
    given: dict[str, Any],
    imported: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ROUTES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    answer: Any = front(*models, **given).answer
    assert {name for name in ROUTES if name in sys.modules} == imported
    assert isinstance(getattr(answer, "__self__", None), Api) is (not imported)


@named_by(
    "method path",
    ("method", "path", "asked"),
    [
        ("POST", "/predict", ("invoke", "default")),
        ("POST", "/dlim/v1/inference/a%20b", ("invoke", "a b")),
        ("OPTIONS", "/dlim/v1/inference/a", ("preflight", "")),
        ("POST", "/dlim/v1/auth/token", ("server", "")),
        ("POST", "/v1/models/m:predict", ("predict", "m")),
        ("POST", "/", ("ask", "")),
        ("GET", "/", ("models", "")),
    ],
)
def test_the_gate_is_told_verb_and_model(method: str, path: str, asked: tuple[str, str]) -> None:
    every = front(PIPELINE, allow_python=True, old_front=STFS)
    assert every.wanted(head(method, path)) == asked


@named_by(
    "method path",
    ("method", "path"),
    [
        ("GET", "/predict"),
        ("POST", "/predict/x"),
        ("POST", "/dlim/v1/inference/"),
        ("POST", "/dlim/v1/inference/a/b"),
        ("POST", "/dlim/v1/inference/a%2Fb"),
        ("GET", "/dlim/v1/model"),
    ],
)
def test_other_paths_of_theirs_are_nowhere(method: str, path: str) -> None:
    with pytest.raises(NotFound):
        front(PIPELINE, allow_python=True).wanted(head(method, path))


@pytest.mark.parametrize("path", ["/predict", "/predict/", "/predict/other/serving_default/1"])
def test_a_chain_is_asked_whatever_model_the_path_names(path: str) -> None:
    chain = front(answering_model="chain")
    assert chain.wanted(head("POST", path)) == ("predict", "chain")
    with pytest.raises(NotFound):
        chain.wanted(head("POST", "/predicted"))
