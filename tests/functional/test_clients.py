"""Programs that are made up for a model: each runs, with its language alone, and is answered."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.functional.servers import Server
from tests.onnx_models import Of, save_onnx
from tests.process import PATIENCE_S, ran

pytestmark = pytest.mark.deployed

PROGRAMS = {
    "python": ("client.py", ("python3",)),
    "bash": ("client.sh", ("bash",)),
    "javascript": ("client.js", ("node",)),
    "go": ("client.go", ("go", "run")),
    "java": ("Client.java", ("java",)),
}
"""File of each language, and what runs it."""
ALWAYS = ("python", "bash")
TOTAL = 3 * 64 * 64
KEY = "k"


def write(root: Path) -> Path:
    """Write `line`, y = x / 2 + n, `large`, the sum of a picture, `echo`, and what names them."""
    line = [
        helper.make_node("Div", ["x", "two"], ["half"]),
        helper.make_node("Cast", ["n"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["half", "real"], ["y"]),
    ]
    given = {"x": ["rows", 3], "n": Of(TensorProto.INT64, [1])}
    model = root / "line" / "1" / "model.onnx"
    save_onnx(model, line, given, {"y": ["rows", 3]}, opset=13, two=np.float32(2))
    add = helper.make_node("ReduceSum", ["picture"], ["total"], keepdims=0)
    model = root / "large" / "1" / "model.onnx"
    save_onnx(model, [add], {"picture": [1, 3, 64, 64]}, {"total": []}, opset=13)
    path = root / "config.json"
    strings = {"dtype": "string", "shape": [-1]}
    echo = {"driver": "null", "params": {"inputs": {"image": strings, "text": strings}}}
    (root / "echo" / "1").mkdir(parents=True)
    own = {"line": {}, "large": {}, "echo": echo}
    entries = [{"config": {"name": name, "base_path": name, **keys}} for name, keys in own.items()]
    path.write_text(json.dumps({"model_config_list": entries}))
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = write(tmp_path_factory.mktemp("models"))
    with Server("ie_serving", "config", f"--config_path={config}") as process:
        yield process.ready()


def generate(server: Server, *argv: str) -> str:
    run = ran("ie_serving", "gen", argv[0], f"--url={server.url}", *argv[1:])
    assert run.returncode == 0, run.stderr
    return run.stdout


def answer(directory: Path, language: str, source: str) -> Any:
    """Run a program with nothing but its language."""
    name, tool = PROGRAMS[language]
    (directory / name).write_text(source)
    argv = [str(shutil.which(tool[0])), *tool[1:], name]
    run = subprocess.run(
        argv, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_is_answered(server: Server, tmp_path: Path, language: str) -> None:
    """The one of the command for small inputs; that of the route for large ones."""
    if language not in ALWAYS and shutil.which(PROGRAMS[language][1][0]) is None:
        pytest.skip(f"{language} is not installed")
    source = generate(server, "client", f"--lang={language}", "--model_name=line")
    assert answer(tmp_path, language, source) == {"outputs": [[1.5, 1.5, 1.5]]}
    page = server.rest.get("/v1/models/large/gen_client", params={"language": language})
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert len(page.text) < 4000, "the ones of a picture are not written out"
    assert answer(tmp_path, language, page.text) == {"outputs": TOTAL}


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_tells_what_is_wrong(server: Server, tmp_path: Path, language: str) -> None:
    name, tool = PROGRAMS[language]
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{language} is not installed")
    source = generate(server, "client", f"--lang={language}", "--model_name=line")
    (tmp_path / name).write_text(source.replace("/line:", "/gone:"))
    run = subprocess.run(
        [str(shutil.which(tool[0])), *tool[1:], name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert run.returncode != 0
    assert "404" in run.stderr


def test_a_request_is_the_one_of_the_route(server: Server) -> None:
    text = generate(server, "request", "--model_name=line", "--model_version=1")
    address = f"--url=127.0.0.1:{server.rest_port}"
    assert generate(server, "request", "line", "--model_version=1", address) == text
    assert json.loads(text) == {"inputs": {"x": [[1.0, 1.0, 1.0]], "n": [1]}}
    assert server.rest.get("/v1/models/line/versions/1/gen_json").json() == json.loads(text)
    reply = server.rest.post("/v1/models/line:predict", content=text)
    assert reply.json() == {"outputs": [[1.5, 1.5, 1.5]]}


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        pytest.param(
            "line/gen_client?language=cobol",
            400,
            "expected one of python, bash, javascript, go, java",
            id="another language",
        ),
        pytest.param(
            "line/gen_client?lang=go",
            400,
            "expected language or signature_name",
            id="another parameter",
        ),
        pytest.param(
            "line/gen_json?signature_name=s", 400, 'no signature "s"', id="no such signature"
        ),
        pytest.param("gone/gen_json", 404, "gone", id="no such model"),
    ],
)
def test_a_program_that_cannot_be_made_up_is_refused(
    server: Server, target: str, status: int, words: str
) -> None:
    reply = server.rest.get(f"/v1/models/{target}")
    assert reply.status_code == status
    assert words in reply.json()["error"]


def test_an_unknown_language_ends_with_2(server: Server) -> None:
    argv = ("gen", "client", "--lang=cobol", "--model_name=line", f"--url={server.url}")
    run = ran("ie_serving", *argv)
    assert run.returncode == 2
    assert not run.stdout
    assert all(language in run.stderr for language in PROGRAMS)


@pytest.mark.parametrize(
    ("argv", "words", "code"),
    [
        (("--model_name=gone",), "answers 404", 1),
        (("--model_name=line", "--signature_name=s"), 'no signature "s"', 2),
    ],
)
def test_the_command_names_what_the_server_refuses(
    server: Server, argv: tuple[str, ...], words: str, code: int
) -> None:
    run = ran("ie_serving", "gen", "request", *argv, f"--url={server.url}")
    assert run.returncode == code
    assert run.stderr.startswith("ie_serving: error: ")
    assert words in run.stderr


def test_the_command_finds_its_server_as_other_commands_do(server: Server) -> None:
    command = ("ie_serving", "gen", "request", "line", "--version=1")
    found = ran(*command, env={"IE_SERVING_URL": server.url})
    assert found.returncode == 0
    assert json.loads(found.stdout)["inputs"]
    away = ran(*command, env={"IE_SERVING_URL": "localhost:1"})
    assert away.returncode == 3
    assert "no server listens at http://localhost:1: start the server" in away.stderr


def test_a_host_that_is_no_host_is_not_written_into_a_program(server: Server) -> None:
    reply = server.rest.get("/v1/models/line/gen_client", headers={"host": "a';evil"})
    assert reply.status_code == 400


PNG = b"\x89PNG\r\n\xff\0"
"""Begins as a picture does; no test decodes it."""


def posted(server: Server, directory: Path, *fields: str) -> tuple[str, bytes]:
    """Send a form by curl; give the reply's type and body."""
    (directory / "cat.png").write_bytes(PNG)
    given = [word for field in fields for word in ("-F", field)]
    argv = ["curl", "-s", "-w", "%{stderr}%{content_type}", *given]
    url = f"{server.url}/v1/models/echo:predict"
    run = subprocess.run([*argv, url], cwd=directory, capture_output=True, check=True, timeout=30)
    return run.stderr.decode(), run.stdout


def test_a_file_sent_in_comes_back_as_a_file(server: Server, tmp_path: Path) -> None:
    fields = ("image=@cat.png", "text=cat", "out_filter=image", "out_mime_type=image/png")
    assert posted(server, tmp_path, *fields) == ("image/png", PNG)


def test_a_browser_is_to_believe_the_type_that_was_asked_for(server: Server) -> None:
    """A picture (SVG) may hold scripts: opened as a page of this server, it must not run any."""
    fields = {"text": "<svg/>", "out_filter": "image", "out_mime_type": "image/svg+xml"}
    files = {"image": ("cat.svg", b"<svg/>")}
    reply = server.rest.post("/v1/models/echo:predict", data=fields, files=files)
    assert (reply.content, reply.headers["content-type"]) == (b"<svg/>", "image/svg+xml")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"] == "sandbox"


def test_texts_of_some_outputs_are_a_list(server: Server, tmp_path: Path) -> None:
    fields = ("image=@cat.png", "text=cat", "out_filter=text", "out_mime_type=text/plain")
    kind, body = posted(server, tmp_path, *fields)
    assert (kind, json.loads(body)) == ("application/json", ["cat"])


def test_some_outputs_are_answered_as_rows(server: Server, tmp_path: Path) -> None:
    kind, body = posted(server, tmp_path, "image=@cat.png", "text=cat", "out_filter=text")
    assert (kind, json.loads(body)) == ("application/json", {"predictions": ["cat"]})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (("out_mime_type=image/png",), "name one in out_filter"),
        (("out_mime_type=image/png\r\nx-evil: 1",), "expected a type such as image/png"),
        (("out_filter=nothing",), "nothing"),
    ],
)
def test_a_reply_of_a_type_that_its_outputs_cannot_have_is_refused(
    server: Server, tmp_path: Path, fields: tuple[str, ...], words: str
) -> None:
    kind, body = posted(server, tmp_path, "image=@cat.png", "text=cat", *fields)
    assert kind == "application/json"
    assert words in json.loads(body)["error"]
