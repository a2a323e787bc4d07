"""HandleReloadConfigRequest: models come, change and go; a reload that fails leaves no trace."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2

from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.serving import several
from tests.process import PATIENCE_S

BODY = {"instances": [[0.0] * 64]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    config = tmp_path / "models.config"
    config.write_text(listed(digits=SAMPLE))
    with Server(
        "tensorflow_model_server",
        f"--model_config_file={config}",
        "--model_config_file_poll_wait_seconds=1",
    ) as server:
        yield server.ready()


def listed(policy: str = "", labels: str = "", **models: Path | str) -> str:
    entries = (
        f'config {{ name: "{name}" base_path: "{base}" model_platform: "tensorflow"'
        f" {policy} {labels} }}"
        for name, base in models.items()
    )
    return f"model_config_list {{ {' '.join(entries)} }}"


def reload(server: Server, text: str) -> Any:
    request = model_management_pb2.ReloadConfigRequest()
    text_format.Parse(text, request.config)
    return server.model.HandleReloadConfigRequest(request, PATIENCE_S)


def refused(server: Server, text: str) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        reload(server, text)
    return caught.value.code(), caught.value.details()


def names(server: Server) -> list[str]:
    return list(server.rest.get("/v1/models").json()["models"])


def test_it_answers_when_the_new_models_serve(server: Server) -> None:
    assert reload(server, listed(digits=SAMPLE, other=SAMPLE)).status.error_code == 0
    assert names(server) == ["digits", "other"]
    assert server.rest.post("/v1/models/other:predict", json=BODY).status_code == 200
    reload(server, listed(other=SAMPLE))
    assert server.rest.post("/v1/models/digits:predict", json=BODY).status_code == 404
    reload(server, "model_config_list {}")
    assert names(server) == []


def test_one_broken_model_refuses_the_whole(server: Server, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "1"
    shutil.copytree(SAMPLE / "1", broken)
    (broken / "model.xml").write_text("<net/>")
    code, text = refused(server, listed(good=SAMPLE, broken=tmp_path / "broken"))
    assert code is grpc.StatusCode.UNKNOWN
    assert "1 model(s) did not become available: {{{name: broken version: 1} due to error" in text
    assert names(server) == ["digits"]
    assert server.rest.post("/v1/models/digits:predict", json=BODY).status_code == 200


@pytest.mark.parametrize(
    ("text", "code", "phrase"),
    [
        (
            'model_config_list { config { name: "a" base_path: "/a" model_platform: "x" } }',
            grpc.StatusCode.INVALID_ARGUMENT,
            "requests unsupported platform x",
        ),
        (
            listed(labels='version_labels { key: "s" value: 9 }', digits=SAMPLE),
            grpc.StatusCode.FAILED_PRECONDITION,
            "Request to assign label to version 9 of model digits, which is not currently",
        ),
        (
            'model_config_list { config { name: "digits" base_path: "/a"'
            ' model_platform: "openvino" } }',
            grpc.StatusCode.INVALID_ARGUMENT,
            "Illegal to change a model's platform",
        ),
    ],
)
def test_a_reload_that_is_refused_changes_nothing(
    server: Server, text: str, code: grpc.StatusCode, phrase: str
) -> None:
    got, details = refused(server, text)
    assert got is code
    assert phrase in details
    assert names(server) == ["digits"]


def test_labels_move_with_a_reload(server: Server) -> None:
    every = "model_version_policy { all {} }"
    reload(server, listed(every, digits=SAMPLE))
    versions = server.rest.get("/v1/models/digits").json()["model_version_status"]
    while len(versions) < 2 or any(status["state"] != "AVAILABLE" for status in versions):
        versions = server.rest.get("/v1/models/digits").json()["model_version_status"]
    for version in (1, 2):
        label = f'version_labels {{ key: "stable" value: {version} }}'
        reload(server, listed(every, label, digits=SAMPLE))
        metadata = server.rest.get("/v1/models/digits/labels/stable/metadata").json()
        assert metadata["model_spec"]["version"] == str(version)
        assert server.rest.post("/v1/models/digits/labels/stable:predict", json=BODY).is_success


def test_the_last_change_wins_between_file_and_rpc(server: Server, tmp_path: Path) -> None:
    """What came by RPC stays until the content of the file changes."""
    reload(server, listed(by_rpc=SAMPLE))
    config = tmp_path / "models.config"
    config.touch()
    assert names(server) == ["by_rpc"]
    config.write_text(listed(by_file=SAMPLE))
    server.line("configuration applied models=by_file")
    assert names(server) == ["by_file"]
    assert json.loads(server.rest.get("/v1/models").text) == {"models": ["by_file"]}


def test_an_rpc_that_names_the_platform_loads_nothing_anew(tmp_path: Path) -> None:
    """A file in JSON has no such word; the models are the same."""
    every = {f"m{n}": SAMPLE for n in range(10)}
    file = several(tmp_path / "models.json", {name: str(base) for name, base in every.items()})
    with Server("ie_serving", *file) as server:
        server.ready()
        assert server.log.count("version loaded") == len(every)
        reload(server, listed(**every, another=SAMPLE))
        server.line("configuration applied models=.*another")  # after the lines of all loads
        assert names(server) == sorted([*every, "another"])
        assert server.log.count("version loaded") == len(every) + 1


def test_models_by_rpc_survive_a_file_that_cannot_be_read_for_a_moment(
    server: Server, tmp_path: Path
) -> None:
    reload(server, listed(by_rpc=SAMPLE))
    config = tmp_path / "models.config"
    config.rename(tmp_path / "away")
    server.line("configuration not applied .*cannot be read")
    (tmp_path / "away").rename(config)
    assert server.rest.post("/v1/config/reload").status_code == 200, "its content is the same"
    assert names(server) == ["by_rpc"]
