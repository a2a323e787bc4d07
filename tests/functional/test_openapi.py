"""The OpenAPI document at `/openapi.json`, judged by others' validators, and its viewer."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openapi_spec_validator
import openvino.opset15 as op
import pytest
from openapi_schema_validator import OAS30Validator

from ie_serving.core.values.tensors import DataType
from tests.functional import page_models
from tests.functional.browser import CHROMIUM, chromium, tab
from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE, SAMPLE_FLAGS, Server
from tests.functional.test_examples import LABELS, SIGNATURES
from tests.functional.test_kserve_rest import echo
from tests.unit.engines.openvino.models import unary
from tests.unit.engines.openvino.stateful_models import accumulator

ODD = "odd {name}?#%:é"
KEYS = {"ann": "read,predict *", "eve": "read digits", "bob": "predict *"}
POSTED = {"predict", "classify", "regress", "infer"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of each kind; `large` takes more elements than an example has."""
    root = tmp_path_factory.mktemp("models")
    path = page_models.write(root, "odd")
    models = json.loads(path.read_text())["model_config_list"]
    models[-1]["config"]["name"] = ODD
    models[0]["config"]["model_version_policy"] = {"all": {}}
    for name, shape in (("open", [-1, -1, 3]), ("large", [1, 300_000]), ("scalar", [])):
        unary(root / name / "1", shape, DataType.FP32, op.relu)
        models.append({"config": {"name": name, "base_path": name}})
    accumulator(root / "sum" / "1")
    models.append({"config": {"name": "sum", "base_path": "sum", "stateful": True}})
    models += [{"config": echo(root, each)} for each in DataType]
    examples = root / "examples" / "2"
    examples.parent.mkdir()
    examples.mkdir()
    for file in (SAMPLE / "2").iterdir():
        (examples / file.name).write_bytes(file.read_bytes())
    (examples / "signatures.json").write_text(json.dumps({"signatures": SIGNATURES}))
    (examples / "labels.txt").write_text("\n".join(LABELS))
    models.append({"config": {"name": "examples", "base_path": "examples"}})
    path.write_text(json.dumps({"model_config_list": models}))
    return path


@pytest.fixture(scope="module")
def server(config: Path) -> Iterator[Server]:
    command = ("config", f"--config_path={config}", "--ready_after_seconds=0")
    with Server("ie_serving", *command) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def guarded(config: Path) -> Iterator[Server]:
    file = config.parent / "keys"
    lines = (
        f"{name} {rights} sha256:{hashlib.sha256(f'{name}-key'.encode()).hexdigest()}\n"
        for name, rights in KEYS.items()
    )
    file.write_text("".join(lines))
    command = ("config", f"--config_path={config}", "--ready_after_seconds=0")
    with Server("ie_serving", *command, f"--api_key_file={file}") as process:
        yield process.ready()


def document(server: Server, query: str = "", key: str = "") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    reply = server.rest.get(f"/openapi.json{query}", headers=headers)
    assert reply.status_code == httpx.codes.OK, reply.text
    return reply.json()


def found(document: Any, reference: Any) -> Any:
    at = document
    for part in reference["$ref"].removeprefix("#/").split("/"):
        at = at[part]
    return at


def examples(document: Any) -> Iterator[tuple[str, str, Any]]:
    """Give path, name and value of each example."""
    for path, methods in document["paths"].items():
        if "post" in methods:
            body = found(document, methods["post"]["requestBody"])
            for name, each in body["content"]["application/json"].get("examples", {}).items():
                yield path, name, each["value"]


def fits(document: Any, content: Any, value: Any) -> None:
    schema = content["content"]["application/json"]["schema"]
    OAS30Validator({**schema, "components": document["components"]}).validate(value)


def test_pages_of_other_origins_read_the_document_where_cors_lets_them(
    serve: Serve, digits: Server
) -> None:
    open_to_all = serve("ie_serving", "model", *SAMPLE_FLAGS, "--enable_cors")
    for server, allowed in ((open_to_all, "*"), (digits, None)):
        for path in ("/openapi.json", "/v1/models/digits/metadata"):
            reply = server.rest.get(path, headers={"Origin": "https://other.test"})
            assert reply.status_code == httpx.codes.OK
            assert reply.headers.get("access-control-allow-origin") == allowed
            assert "cross-origin-resource-policy" not in reply.headers
        viewer = server.rest.get("/docs")
        assert viewer.headers["cross-origin-resource-policy"] == "same-origin"


def test_the_document_is_valid_and_names_models_as_they_are(server: Server) -> None:
    made = document(server)
    openapi_spec_validator.validate(made)
    assert {each["name"] for each in made["tags"]} >= {"digits", "photos", ODD, "BYTES"}
    named = [each["operationId"] for path in made["paths"].values() for each in path.values()]
    assert len(named) == len(set(named))


def test_each_example_fits_its_schema_and_is_answered(server: Server) -> None:
    made = document(server)
    asked = set()
    for path, name, value in examples(made):
        body = found(made, made["paths"][path]["post"]["requestBody"])
        fits(made, body, value)
        reply = server.rest.post(path, json=value)
        assert reply.status_code == httpx.codes.OK, (path, name, value, reply.text)
        answer = found(made, made["paths"][path]["post"]["responses"]["200"])
        fits(made, answer, reply.json())
        asked.add(path)
    posted = {path for path, methods in made["paths"].items() if "post" in methods}
    assert posted - asked == {"/v1/models/large:predict", "/v2/models/large/infer"}
    assert {path.rpartition(":")[2].rpartition("/")[2] for path in asked} == POSTED
    assert {
        "/v1/models/digits/versions/1:predict",
        "/v1/models/digits/labels/stable:predict",
        "/v2/models/digits/versions/stable/infer",
    } <= asked


def test_each_page_that_is_named_is_there(server: Server) -> None:
    for path, methods in document(server)["paths"].items():
        if "get" in methods:
            assert server.rest.get(path).status_code == httpx.codes.OK, path


def test_a_document_describes_one_model_where_it_is_asked(server: Server) -> None:
    made = document(server, "?model=photos")
    assert [each["name"] for each in made["tags"]] == ["photos"]
    for query, status in (("?model=none", 404), ("?model=a&model=b", 400), ("?x=1", 400)):
        assert server.rest.get(f"/openapi.json{query}").status_code == status


def test_a_caller_sees_the_models_that_it_may_ask_for(guarded: Server) -> None:
    made = document(guarded, key="ann-key")
    openapi_spec_validator.validate(made)
    assert set(made["components"]["securitySchemes"]) == {"key", "keyHeader", "user"}
    assert len(made["tags"]) > 20
    assert [each["name"] for each in document(guarded, key="eve-key")["tags"]] == ["digits"]
    for key, query, status in (("bob", "", 403), ("nobody", "", 401), ("eve", "?model=sum", 403)):
        headers = {"x-api-key": f"{key}-key"}
        assert guarded.rest.get(f"/openapi.json{query}", headers=headers).status_code == status


@pytest.mark.deployed
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium: apt-get install chromium")
def test_the_viewer_shows_it_and_sends_an_example(server: Server, guarded: Server) -> None:
    """And nothing comes from elsewhere, or breaks the policy, which `tab` looks for."""
    asked: list[str] = []
    with chromium() as browser, tab(browser, f"{server.url}/docs?model=digits") as page:
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        operation = page.locator(".opblock", has_text="/v1/models/digits:predict").first
        operation.locator("button.opblock-summary-control").click()
        operation.get_by_role("button", name="Try it out").click()
        operation.get_by_role("button", name="Execute").click()
        operation.locator(".live-responses-table .response-col_status", has_text="200").wait_for()
    assert [each for each in asked if not each.startswith((server.url, "data:"))] == []
    with chromium() as browser, tab(browser, f"{guarded.url}/docs") as page:
        page.get_by_text("asks for a key and keeps it for this tab").wait_for()
        page.evaluate("sessionStorage.setItem('ie_serving authorization', 'Bearer eve-key')")
        page.reload()
        page.get_by_text("/v1/models/digits:predict").first.wait_for()
