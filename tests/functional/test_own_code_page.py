"""The ways of docs/guide (own code, hooks, libraries) from Python to a service, as they stand.

Changed are only ports, which come from the system, and the root of absolute paths.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.functional.servers import LOADED, ROOT
from tests.process import COMMANDS, PATIENCE_S, Process, free_ports, output_of, until

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl")
GUIDE = ROOT / "docs" / "guide"
PAGE = "".join((GUIDE / page).read_text() for page in ("own-code.md", "hooks.md", "libraries.md"))
ENVIRONMENT = {"PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}", "no_proxy": "localhost"}


def blocks(title: str) -> list[str]:
    """Give what a section shows in blocks, one after the other."""
    section = PAGE[PAGE.index(f"# {title}\n") + 1 :]
    section = section[: section.index("\n## ")]
    return re.findall(r"^```\w*\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@contextmanager
def served(commands: str, folder: Path) -> Iterator[httpx.Client]:
    """Start the server as printed, but for the line that installs, and give a client of it."""
    port, rest_port = free_ports(2)
    command = re.sub(r"^pip install .*\n", "", commands).strip()
    command = command.replace("--rest_port 8000", f"--rest_port {rest_port} --port {port}")
    process = Process("/bin/sh", "-ec", f"exec {command}", env=ENVIRONMENT, cwd=folder)
    url = f"http://localhost:{rest_port}"
    with closing(process), httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as rest:
        process.line(LOADED)
        process.listens(rest_port)
        yield rest


def typed(commands: str, rest: httpx.Client, folder: Path) -> str:
    here = str(rest.base_url).removeprefix("http://").rstrip("/")
    text = commands.replace("localhost:8000", here).replace("curl ", "curl -s ")
    return "\n".join(output_of("/bin/sh", "-ec", text, env=ENVIRONMENT, cwd=folder))


def state(rest: httpx.Client, model: str, version: int) -> str:
    reply = rest.get(f"/v1/models/{model}/versions/{version}")
    return str(reply.json()) if reply.status_code == 200 else ""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `models` as the page's first program leaves it."""
    pytest.importorskip("skops.io")
    folder = tmp_path_factory.mktemp("trained")
    train, *_ = blocks("From a scikit-learn model to a service")
    output_of(sys.executable, "-c", train, cwd=folder)
    return folder / "models"


@pytest.mark.deployed
def test_the_page_leads_from_a_scikit_learn_model_to_a_service(
    trained: Path, tmp_path: Path
) -> None:
    _, serve, ask = blocks("From a scikit-learn model to a service")
    shutil.copytree(trained, tmp_path / "models")
    models = tmp_path / "models" / "iris"
    with served(serve, tmp_path) as rest:
        answer = typed(ask, rest, tmp_path)
        assert '"label": "setosa"' in answer
        assert re.search(r'"setosa",\s*0\.9', answer)
        assert '"tensorflow/serving/classify"' in answer
        shutil.copytree(models / "1", models / "2")
        until(lambda: "AVAILABLE" in state(rest, "iris", 2))
        (models / "3").mkdir()
        (models / "3" / "iris.skops").write_bytes(b"none")
        until(lambda: "iris.skops" in state(rest, "iris", 3))
        assert '"label": "setosa"' in typed(ask.splitlines()[0], rest, tmp_path)
        shutil.rmtree(models / "3")
        made = shutil.copytree(models / "2", tmp_path / "made")
        golden = {"request": {"instances": [[5.1, 3.5, 1.4, 0.2]]}}
        golden["response"] = {"predictions": [{"label": "virginica"}]}
        (made / "golden.json").write_text(json.dumps({"requests": [golden]}))
        made.rename(models / "4")
        until(lambda: "golden" in state(rest, "iris", 4))
        assert '"label": "setosa"' in typed(ask.splitlines()[0], rest, tmp_path)
        metrics = rest.get("/metrics").text
        assert 'ie_serving_requests_total{model_name="iris",version="2"' in metrics


def test_the_page_leads_from_ten_lines_of_python_to_a_service(tmp_path: Path) -> None:
    code, serve, ask, answer, _ = blocks("From ten lines of Python to a service")
    kernel = tmp_path / "models" / "risk" / "1" / "kernel.py"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(code)
    with served(serve, tmp_path) as rest:
        assert json.loads(typed(ask, rest, tmp_path)) == json.loads(answer)
        (made,) = re.findall(r"`(ie_serving gen client --lang python\n?.*?)`", PAGE, re.DOTALL)
        program = typed(made.replace("\n", " "), rest, tmp_path)
        (tmp_path / "client.py").write_text(program)
        printed = output_of(sys.executable, "client.py", env=ENVIRONMENT, cwd=tmp_path)
        assert '"score"' in "\n".join(printed)
        kernel.parent.with_name("2").mkdir()
        stricter = code.replace('get("limit", 0.5)', 'get("limit", 2.0)')
        assert stricter != code
        kernel.parent.with_name("2").joinpath("kernel.py").write_text(stricter)
        until(lambda: "AVAILABLE" in state(rest, "risk", 2))
        until(lambda: '"high": true' not in typed(ask, rest, tmp_path))
        metrics = rest.get("/metrics").text
        assert 'ie_serving_requests_total{model_name="risk",version="2"' in metrics


@pytest.mark.deployed
def test_the_page_puts_hooks_around_the_scikit_learn_model(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "models")
    hooks, entry, ask, answer = blocks("Hooks around a model")
    (tmp_path / "models" / "iris" / "1" / "hooks.py").write_text(hooks)
    config = json.loads(entry.replace("/models", f"{tmp_path}/models"))
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": [{"config": config}]}))
    serve = "ie_serving config --config_path config.json --allow_python --rest_port 8000"
    with served(serve, tmp_path) as rest:
        assert json.loads(typed(ask, rest, tmp_path)) == json.loads(answer)
