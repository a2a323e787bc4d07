"""The gRPC client of docs/guide/streams.md, as printed, with and without tensorflow-serving-api.

Changed are only the port and the name of the model; `python` is the interpreter of the tests.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.servers import ROOT, Server
from tests.functional.stream_models import write
from tests.process import PATIENCE_S

PAGE = (ROOT / "docs" / "guide" / "streams.md").read_text()
PROTOS = ROOT / "ie_serving" / "wire" / "protobuf" / "protos"
THEIRS = "from tensorflow_serving.apis import predict_pb2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = write(tmp_path_factory.mktemp("streams"))
    with Server("ie_serving", "config", f"--config_path={file}", "--allow_python") as server:
        yield server.ready()


def block(kind: str, has: str) -> str:
    """Give the one block of the section that is of this kind, and has this in it."""
    section = PAGE.partition("\n## gRPC\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    (found,) = (text for word, text in blocks if word == kind and has in text)
    return str(found)


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def typed(folder: Path, command: str) -> None:
    python, *arguments = shlex.split(command)
    assert python == "python"
    run(folder, *arguments)


def client(server: Server) -> str:
    code = block("python", "stream_stream")
    code = code.replace("127.0.0.1:9000", f"127.0.0.1:{server.port}")
    return code.replace("half_plus_two", "twice")


def prepared(folder: Path) -> None:
    (folder / "streams_client.proto").write_text(block("proto", "PredictStreamResponse"))
    typed(folder, block("", "streams_client.proto"))


ANSWERS = "0 [2.0]\n1 [4.0]\n2 [6.0]\n"


@pytest.mark.deployed
def test_the_client_runs_beside_tensorflow_serving_api(server: Server, tmp_path: Path) -> None:
    prepared(tmp_path)
    assert run(tmp_path, "-c", client(server)) == ANSWERS


def test_the_client_runs_without_tensorflow_serving_api(server: Server, tmp_path: Path) -> None:
    prepared(tmp_path)
    (tmp_path / "protos").symlink_to(PROTOS)
    typed(tmp_path, block("", "-Iprotos"))
    assert "import serving_pb2 as predict_pb2" in PAGE and THEIRS in client(server)
    code = client(server).replace(THEIRS, "import serving_pb2 as predict_pb2")
    assert run(tmp_path, "-c", code) == ANSWERS
    assert "no such model" in run(tmp_path, "-c", code.replace("twice", "none"))
