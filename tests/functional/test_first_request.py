"""What docs/guide/clients.md shows: the clients' first request, and `mapping_config.json`.

The code is taken from the page itself; only the ports are others.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional import half_plus_two
from tests.functional.conformance.document import CLIENTS
from tests.functional.servers import Server
from tests.process import PATIENCE_S

ANSWER = [2.5, 3.0, 4.5]
NAMES = ("half_plus_two", "renamed")
ENTRY = 'config { name: "%s" base_path: "%s" model_platform: "tensorflow" }'
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", CLIENTS.read_text(encoding="utf-8"), re.S | re.M)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serves half_plus_two, and `renamed`: the same model with the page's mapping_config.json."""
    models = tmp_path_factory.mktemp("models")
    half_plus_two.export(models / "half_plus_two")
    shutil.copytree(models / "half_plus_two", models / "renamed")
    mapping = models / "renamed" / half_plus_two.VERSION / "mapping_config.json"
    mapping.write_text(code("json")[0])
    config = models / "models.config"
    entries = "".join(ENTRY % (name, models / name) for name in NAMES)
    config.write_text(f"model_config_list {{ {entries} }}")
    with Server("tensorflow_model_server", f"--model_config_file={config}") as started:
        yield started.ready()


def code(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def with_ports(text: str, server: Server) -> str:
    assert "localhost:8500" in text or "localhost:8501" in text
    text = text.replace("localhost:8500", f"localhost:{server.port}")
    return text.replace("localhost:8501", f"localhost:{server.rest_port}")


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "number", [pytest.param(0, id="gRPC", marks=pytest.mark.deployed), pytest.param(1, id="REST")]
)
def test_the_program_in_python_runs(server: Server, tmp_path: Path, number: int) -> None:
    program = tmp_path / "client.py"
    program.write_text(with_ports(code("python")[number], server))
    assert json.loads(output(sys.executable, str(program))) == ANSWER


def test_the_command_with_curl_runs(server: Server) -> None:
    (command,) = code("sh")
    assert json.loads(output("sh", "-c", with_ports(command, server))) == {"predictions": ANSWER}


@pytest.mark.deployed
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java here")
def test_the_program_in_java_runs(server: Server, tmp_path: Path) -> None:
    (text,) = code("java")
    program = tmp_path / "OverRest.java"
    program.write_text(with_ports(text, server))
    assert json.loads(output("java", str(program))) == {"predictions": ANSWER}


def test_mapping_config_gives_the_names_that_clients_use(server: Server) -> None:
    reply = server.rest.post(
        "/v1/models/renamed:predict", json={"inputs": {"number": [1.0, 2.0, 5.0]}}
    )
    assert reply.json() == {"outputs": ANSWER}
    metadata = server.rest.get("/v1/models/renamed/metadata").json()
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert (list(signature["inputs"]), list(signature["outputs"])) == (
        ["number"],
        ["half_plus_two"],
    )
