"""The page at `/` over the stand-in engine: its files, and the JSON that fills it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ie_serving.app.fronts import page_routes
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import WHOLE, NotFound
from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import CodeSource, KernelOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import Latest
from ie_serving.models.served_models import ServedModel, ServedModels
from ie_serving.server.fronts import page as routes
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.page import page_front as files
from ie_serving.server.fronts.page.configuration import of_model
from ie_serving.server.fronts.rest.routes import Routes, Verb
from ie_serving.server.transport.http1.messages import Reply, Request, RequestHead
from ie_serving.storage.backends.minio import MinioOptions
from ie_serving.storage.backends.s3 import S3Options
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.metrics.page import Metrics
from tests.unit.inference.stand_ins import MODEL, Heart, Loaded

FRONT = "ie_serving.server.fronts.page.page_front"
STATIC = Path(files.__file__).parent / "static"
ODD_NAME = "<b>n</b>"
"""A model's name that is markup."""
ELSEWHERE = Reply(404, (), b"elsewhere")


async def elsewhere(_: Request) -> Reply:
    return ELSEWHERE


class Failing(Loaded):
    """A stream with a version that has failed, under a name that is markup."""

    def statuses(self) -> list[VersionStatus]:
        cause = "cannot be read: s3://key:word@bucket/m"
        return [VersionStatus(4, State.LOADING, cause), *super().statuses()]


async def served() -> ServedModels:
    heart = Heart()
    await heart.plane()
    models = ServedModels()
    for name, kind in ((MODEL, Loaded), (ODD_NAME, Failing)):
        stream: Any = kind(name, [heart.servable], {"stable": heart.servable.version})
        config = ModelConfig(name=name, base_path="s3://user:word@bucket/m")
        models.entries = {**models.entries, name: ServedModel(config, stream)}
    return models


async def page(metrics: Metrics | None = None, **server: Any) -> Routes[Verb]:
    settings = Settings(server=ServerSettings(rest_port=1, **server), models=())
    secret = S3Options(access_key="AKIA", secret_key="word", endpoint="http://me:word@s3")
    storage = StorageOptions(cache_dir=Path("/c"), own=(secret, MinioOptions(secret_key="word")))
    return page_routes(settings, storage, await served(), Health(), metrics or Metrics())


async def ask(asked: Routes[Verb], method: str, path: str, body: bytes = b"") -> Reply:
    head = RequestHead(method, path.encode(), b"", "1.1", (), {}, len(body), True, False)
    app = asked.before(elsewhere)
    reply = await app(Request(head, body))
    assert isinstance(reply, Reply)
    return reply


async def shown(path: str, **server: Any) -> Any:
    reply = await ask(await page(**server), "GET", path)
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


async def test_nothing_is_imported_before_the_page_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, FRONT, raising=False)
    asked = await page()
    assert await ask(asked, "GET", "/v1/models") is ELSEWHERE
    assert FRONT not in sys.modules
    await ask(asked, "GET", "/")
    assert FRONT in sys.modules


@pytest.mark.parametrize("path", [*routes.FILES, b"/page/state", b"/page/models/m"])
async def test_without_the_flag_there_is_nothing(path: bytes) -> None:
    metrics = Metrics()
    asked = await page(metrics, page=False)
    assert await ask(asked, "GET", path.decode()) is ELSEWHERE
    assert metrics.recent is None
    with pytest.raises(NotFound):
        asked.wanted(refuse)(RequestHead("GET", path, b"", "1.1", (), {}, 0, True, False))


def refuse(_: RequestHead) -> tuple[str, str]:
    raise NotFound("no such page")


@pytest.mark.parametrize("path", ["/page/", "/page/../main.js", "/page/main.js/", "/index.html"])
async def test_no_other_path_is_the_pages(path: str) -> None:
    assert await ask(await page(), "GET", path) is ELSEWHERE


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/"), ("POST", "/"), ("OPTIONS", "/")])
async def test_no_other_method_is_the_pages(method: str, path: str) -> None:
    assert await ask(await page(), method, path) is ELSEWHERE


async def test_metrics_stand_where_they_are_wanted() -> None:
    assert await ask(await page(metrics_path="/"), "GET", "/") is ELSEWHERE


def test_every_file_is_served_and_every_served_file_is_there() -> None:
    assert {path.name for path in STATIC.iterdir()} == set(routes.FILES.values())


@pytest.mark.parametrize("path", [*routes.FILES, b"/page/state", b"/page/configuration"])
async def test_every_reply_is_shut_off_from_other_sites(path: bytes) -> None:
    headers = dict((await ask(await page(), "GET", path.decode())).headers)
    policy = headers[b"content-security-policy"].decode()
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"referrer-policy"] == b"no-referrer"
    assert headers[b"cross-origin-resource-policy"] == b"same-origin"


@pytest.mark.parametrize("name", sorted(set(routes.FILES.values())))
def test_no_file_asks_another_site_or_makes_html_of_text(name: str) -> None:
    text = (STATIC / name).read_text()
    addresses = set(re.findall(r"https?://[^\"'` ]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "names of XML are no addresses"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(", text)
    if name.endswith("html"):
        assert not re.search(r"<script(?! type=\"module\" src=)|<style| on\w+=| style=", text)


async def test_the_state_tells_versions_causes_and_labels() -> None:
    state = await shown("/page/state")
    odd, plain = state["models"]
    assert (odd["name"], plain["name"]) == (ODD_NAME, MODEL)
    assert (plain["labels"], plain["is_loaded"]) == ({"stable": "3"}, True)
    assert state["server"]["budget"] is None
    assert plain["versions"] == [
        {"version": "3", "state": "AVAILABLE", "failed": False, "cause": ""}
    ]
    assert odd["versions"][0] == {
        "version": "4",
        "state": "LOADING",
        "failed": True,
        "cause": "cannot be read: s3://***@bucket/m",
    }
    assert state["server"]["phase"] == "starting"
    assert state["server"]["metrics"] == "/metrics"
    assert (await shown("/page/state", metrics_path=""))["server"]["metrics"] is None


async def test_a_model_is_described_for_a_form() -> None:
    model = await shown("/page/models/m")
    signatures = {each["name"]: each for each in model["versions"][0]["signatures"]}
    (x,) = signatures["serving_default"]["inputs"]
    assert (x["name"], x["dtype"], x["shape"]) == ("x", "float", [-1, -1])
    assert (x["value"], x["sizes"]) == ("1.0", [1, 1])
    assert signatures["classify"]["verb"] == "classify"
    assert signatures["classify"]["features"] == ["f"]
    assert model["base_path"] == "s3://***@bucket/m"


async def test_a_name_of_any_characters_is_found_and_an_unknown_one_refused() -> None:
    assert (await shown("/page/models/%3Cb%3En%3C%2Fb%3E"))["name"] == ODD_NAME
    reply = await ask(await page(), "GET", "/page/models/gone")
    assert reply.status == 404
    assert json.loads(reply.body)["error"] == "Could not find any versions of model gone"
    assert b"no such model" in dict(reply.headers)[WHOLE.encode()]


async def test_the_configuration_shows_no_secret() -> None:
    settings = {each["name"]: each for each in await shown("/page/configuration")}
    text = json.dumps(settings)
    assert "word" not in re.sub(r"pass-?word", "", re.sub(r"\"meaning\": \"[^\"]*\"", "", text))
    assert "AKIA" not in text
    assert settings["s3.secret_key"]["value"] == "(set, not shown)"
    assert settings["s3.session_token"]["value"] == ""
    assert settings["s3.endpoint"]["value"] == "http://***@s3"
    assert settings["server.rest_port"] == {
        "name": "server.rest_port",
        "value": "1",
        "changed": True,
        "default": "0",
        "meaning": "REST port; 0 is off",
    }


async def test_a_password_of_a_flag_is_not_shown() -> None:
    asked = await shown("/page/configuration", enable_auth=True, auth_password="open sesame")
    assert "sesame" not in json.dumps(asked)


async def test_a_call_becomes_programs() -> None:
    call = {"url": "http://h:1/under/", "model": "a b", "label": "x", "verb": "predict"}
    pieces = ['{"inputs": {"t": ["ü\'", ', {"file": "../it's.png"}, "]}}"]
    body = json.dumps({**call, "pieces": pieces}).encode()
    reply = await ask(await page(), "POST", "/page/programs", body)
    programs = json.loads(reply.body)
    assert set(programs) == {"curl", "python", "go", "javascript"}
    for program in programs.values():
        assert "http://h:1/under/v1/models/a%20b/labels/x:predict" in program
        assert "_it_s.png" in program, "nothing of a file's name is a quote or a path"
        assert program.isascii()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"url": "javascript:alert(1)"}, id="an address with a script"),
        pytest.param({"url": "http://h/'; rm -rf ~"}, id="an address with a quotation mark"),
        pytest.param({"verb": "poll"}, id="another verb"),
        pytest.param({"version": "one"}, id="a version of words"),
        pytest.param({"pieces": ["a\nb"]}, id="a piece of two lines"),
        pytest.param({"pieces": [{"value": "1; import os", "sizes": [1]}]}, id="a value with code"),
        pytest.param({"pieces": [{"value": "1", "sizes": ["x"]}]}, id="a size of words"),
        pytest.param({"pieces": [{"value": "1", "sizes": [float("inf")]}]}, id="an infinite size"),
        pytest.param({"pieces": None}, id="no pieces"),
        pytest.param({"model": None, "pieces": [[]]}, id="no model and an empty piece"),
    ],
)
async def test_a_call_that_is_none_becomes_no_program(change: dict[str, Any]) -> None:
    good = {"url": "http://h", "model": "m", "verb": "predict", "pieces": ["{}"]}
    body = json.dumps({**good, **change}).encode()
    reply = await ask(await page(), "POST", "/page/programs", body)
    assert reply.status == 400
    assert dict(reply.headers)[b"x-content-type-options"] == b"nosniff"


def test_the_settings_of_a_model_are_written_for_people() -> None:
    params = {"api_key": "hush", "limits": {"secret_key": "hush", "depth": 3}}
    config = ModelConfig(
        name="m",
        base_path="/m",
        version_policy=Latest(2),
        engine=EngineOptions(nireq=4, params=params),
    )
    shown = {each["name"]: each["value"] for each in of_model(config)}
    assert shown["model.version_policy"] == "latest num_versions=2"
    assert shown["engine.nireq"] == "4"
    assert "hush" not in shown["engine.params"]
    assert '"depth": 3' in shown["engine.params"]
    assert "engine.driver" not in shown, "it has its default"


def test_the_code_of_a_model_is_written_as_its_setting_takes_it() -> None:
    code = KernelOptions(source=CodeSource(file="kernel.py", name="Risk", beside="/a"))
    config = ModelConfig(name="m", base_path="/m", engine=EngineOptions().having(code))
    shown = {each["name"]: each["value"] for each in of_model(config)}
    assert shown["kernel.source"] == "kernel.py:Risk"


async def test_a_call_that_lacks_something_is_told_what() -> None:
    reply = await ask(await page(), "POST", "/page/programs", b"{}")
    assert reply.status == 400
    assert json.loads(reply.body) == {"error": 'the call has no "model", which it must have'}
