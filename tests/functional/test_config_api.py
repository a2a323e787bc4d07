"""`/v1/config` of OpenVINO Model Server: the states of all models, and a reload of the file.

Source: its documentation, "TensorFlow Serving compatible RESTful API".
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tensorflow_serving.apis import get_model_status_pb2

from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE, Server, config_flag
from tests.process import PATIENCE_S

RELOAD = "/v1/config/reload"
AVAILABLE = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": "OK"}}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE / "1", tmp_path / "digits" / "1")
    return tmp_path


def write(repository: Path, *names: str, **paths: str) -> Path:
    file = repository / "config.json"
    wanted = dict.fromkeys(names, "digits") | paths
    config_flag(file, *({"name": name, "base_path": path} for name, path in wanted.items()))
    return file


@pytest.fixture
def server(serve: Serve, repository: Path) -> Server:
    """Looks at nothing by itself, as the users of these routes have it."""
    file = write(repository, "one")
    still = "--file_system_poll_wait_seconds=0"
    return serve("ie_serving", f"--config_path={file}", still)


def states(document: Any) -> dict[str, dict[str, str]]:
    return {
        name: {each["version"]: each["state"] for each in model["model_version_status"]}
        for name, model in document.items()
    }


def test_the_states_of_all_models_are_told(server: Server) -> None:
    reply = server.rest.get("/v1/config")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    of_one = {"model_version_status": [{"version": "1", **AVAILABLE}]}
    assert reply.json() == {"one": of_one}
    assert server.rest.get("/v1/models/one").json() == of_one
    asked = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "one"})
    (status,) = server.model.GetModelStatus(asked, PATIENCE_S).model_version_status
    assert (status.status.error_code, status.status.error_message) == (0, "OK")


@pytest.mark.parametrize(("keys", "message"), [({}, ""), ({"monitoring": {}}, "OK")])
def test_a_line_of_2020_has_its_message_or_that_of_the_files_keys(
    serve: Serve, repository: Path, keys: dict[str, Any], message: str
) -> None:
    file = write(repository, "one")
    file.write_text(json.dumps({**json.loads(file.read_text()), **keys}))
    server = serve("ie_serving", "config", f"--config_path={file}")
    (status,) = server.rest.get("/v1/models/one").json()["model_version_status"]
    assert status["status"] == {"error_code": "OK", "error_message": message}


def test_a_reload_answers_when_what_is_new_serves(server: Server, repository: Path) -> None:
    assert server.rest.post(RELOAD).status_code == 200  # nothing to do
    write(repository, "one", "two")
    reply = server.rest.post(RELOAD)
    assert reply.status_code == 201
    both = {"one": {"1": "AVAILABLE"}, "two": {"1": "AVAILABLE"}}
    assert states(reply.json()) == states(server.rest.get("/v1/config").json()) == both
    assert server.rest.post(RELOAD).status_code == 200


def test_a_reload_finds_a_version_that_is_new(server: Server, repository: Path) -> None:
    shutil.copytree(SAMPLE / "2", repository / "digits" / "2")
    reply = server.rest.post(RELOAD)
    assert reply.status_code == 201
    assert states(reply.json())["one"]["2"] == "AVAILABLE"


def test_a_broken_file_changes_nothing_and_says_why_each_time(
    server: Server, repository: Path
) -> None:
    (repository / "config.json").write_text("{")
    for _ in range(2):
        reply = server.rest.post(RELOAD)
        assert reply.status_code == 400
        assert reply.json()["error"].startswith("Reloading config file failed. Check server logs")
        assert "config.json:1:2: not JSON" in reply.json()["error"]
    assert states(server.rest.get("/v1/config").json()) == {"one": {"1": "AVAILABLE"}}


def test_a_reload_of_a_file_that_is_gone_is_refused(server: Server, repository: Path) -> None:
    (repository / "config.json").unlink()
    reply = server.rest.post(RELOAD)
    assert reply.status_code == 400
    assert reply.json()["error"].startswith("Config file not found or cannot open.")


def test_a_model_that_does_not_load_is_named(server: Server, repository: Path) -> None:
    broken = repository / "broken" / "1"
    shutil.copytree(SAMPLE / "1", broken)
    (broken / "model.xml").write_text("<net")
    write(repository, "one", bad="broken")
    reply = server.rest.post(RELOAD)
    assert reply.status_code == 500
    text = reply.json()["error"]
    assert text.startswith("Reloading models versions failed. Check server logs for more info.")
    assert "bad version 1" in text
    found = states(server.rest.get("/v1/config").json())
    assert found == {"one": {"1": "AVAILABLE"}, "bad": {"1": "LOADING"}}


def test_a_model_without_a_directory_is_named(server: Server, repository: Path) -> None:
    write(repository, "one", lost="nowhere")
    reply = server.rest.post(RELOAD)
    assert reply.status_code == 503
    assert "nowhere" in reply.json()["error"]
    assert states(server.rest.get("/v1/config").json())["lost"] == {}


def test_a_model_of_the_command_line_is_polled(serve: Serve, repository: Path) -> None:
    still = ("--file_system_poll_wait_seconds=0", "--reload_by_rpc")
    server = serve("ie_serving", "--model_name=m", f"--model_path={repository / 'digits'}", *still)
    assert server.rest.post(RELOAD).status_code == 200
    shutil.copytree(SAMPLE / "2", repository / "digits" / "2")
    assert server.rest.post(RELOAD).status_code == 201


def test_a_client_closed_out_of_reloads_is_told(serve: Serve, repository: Path) -> None:
    file = write(repository, "one")
    server = serve("ie_serving", f"--config_path={file}", "--reload_by_rpc=false")
    reply = server.rest.post(RELOAD)
    assert reply.status_code == 403
    assert "--reload_by_rpc" in reply.json()["error"]
    assert server.rest.get("/v1/config").status_code == 200


def test_a_page_of_a_name_that_leads_here_changes_nothing(server: Server) -> None:
    """DNS rebinding: a browser sends this where such a name has resolved to 127.0.0.1."""
    for route in (RELOAD, "/v1/models/one:poll", "/v1/models/one:labels", "/v1/log_level"):
        host = f"evil.example.com:{server.rest_port}"
        reply = server.rest.post(route, headers={"host": host, "origin": f"http://{host}"})
        assert reply.status_code == 403, route
        assert f'"http://{host}" may change nothing here' in reply.json()["error"]
    host = f"127.0.0.1:{server.rest_port}"
    reply = server.rest.post(RELOAD, headers={"host": host, "origin": f"http://{host}"})
    assert reply.status_code == 200
    assert server.rest.post(RELOAD, headers={"host": "models.example.com"}).status_code == 200


def test_targets_are_compared_whole_and_without_case(server: Server) -> None:
    assert server.rest.get("/V1/Config").json() == server.rest.get("/v1/config").json()
    assert server.rest.get("/v1/Models").json() == server.rest.get("/v1/models").json()
    assert server.rest.post("/v1/Config/RELOAD").status_code == 200


def test_other_methods_are_malformed(server: Server) -> None:
    asked = (
        ("POST", "/v1/config"),
        ("GET", RELOAD),
        ("GET", "/v1/config/"),
        ("POST", f"{RELOAD}?a"),
    )
    for method, target in asked:
        reply = server.rest.request(method, target)
        assert (reply.status_code, reply.json()) == (
            400,
            {"error": f"Malformed request: {method} {target}"},
        )
