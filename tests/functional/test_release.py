"""What a release consists of: built twice, installed where nothing else is, and used.

`make release_check` runs it; it fetches every dependency.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ie_serving import __version__
from tests.functional.servers import ROOT, Server
from tests.process import output_of

GIT = shutil.which("git") or "git"
pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


def _built(folder: Path) -> dict[str, bytes]:
    """Build a clone of its own; return the files by name."""
    output_of(GIT, "clone", "--quiet", str(ROOT), str(folder / "clone"))
    script = folder / "clone/deploy/release.py"
    output_of(sys.executable, str(script), str(folder / "dist"), patience_s=200)
    return {path.name: path.read_bytes() for path in (folder / "dist").iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("built")
    _built(folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("environment")
    output_of(sys.executable, "-m", "venv", str(folder))
    (wheel,) = built.glob("*.whl")
    output_of(str(folder / "bin/pip"), "install", "--quiet", str(wheel), patience_s=400)
    return folder / "bin"


def test_the_same_commit_gives_the_same_files(built: Path, tmp_path: Path) -> None:
    again = _built(tmp_path)
    assert {path.name: path.read_bytes() for path in built.iterdir()} == again
    assert sorted(again) == [
        f"ie_serving-{__version__}-py3-none-any.whl",
        f"ie_serving-{__version__}.tar.gz",
    ]


def test_an_index_would_take_them(built: Path) -> None:
    output_of(sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir()))


@pytest.fixture
def server(installed: Path, tmp_path: Path) -> Iterator[Server]:
    """Serves the sample; its folder is not the project's, so that only the wheel is imported."""
    model = ("--model_name=digits", f"--model_path={ROOT / 'examples/models/digits'}")
    server = Server(str(installed / "ie_serving"), "model", *model, cwd=tmp_path)
    yield server
    server.stop()


def test_an_installed_release_serves_the_sample(installed: Path, server: Server) -> None:
    output_of(str(installed / "pip"), "check")
    assert __version__ in "".join(output_of(str(installed / "ie_serving"), "--version"))
    server.ready()
    request = json.loads((ROOT / "examples/digits/request.json").read_text())
    reply = server.rest.post("/v1/models/digits:predict", json=request).json()
    assert reply["predictions"][0]["digit"] == 1
    client = [str(ROOT / "examples/digits/client_grpc.py"), "--port", str(server.port)]
    lines = output_of(str(installed / "python"), *client, cwd=installed)
    assert lines[0].startswith("predicted 1, true 1")


def test_the_client_needs_four_packages(built: Path, server: Server, tmp_path: Path) -> None:
    output_of(sys.executable, "-m", "venv", str(tmp_path))
    (wheel,) = built.glob("*.whl")
    pip = (str(tmp_path / "bin/pip"), "install", "--quiet")
    output_of(*pip, "grpcio", "httpx", "numpy", "protobuf", patience_s=200)
    output_of(*pip, "--no-deps", str(wheel))
    server.ready()
    for url in (f"http://localhost:{server.rest_port}", f"grpc://localhost:{server.port}"):
        program = (
            "from ie_serving.client import Client\n"
            f"with Client({url!r}) as client:\n"
            "    x = [[0.0] * 64]\n"
            "    one = client.predict('digits', {'image': x})\n"
            "    two = client.infer('digits', {'image': x})\n"
            "print(one['digit'] == two['digit'])"
        )
        assert output_of(tmp_path / "bin/python", "-c", program, cwd=tmp_path) == ["[ True]"]
