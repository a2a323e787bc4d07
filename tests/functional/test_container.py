"""What the image is made of, without building it: `make docker_check` builds and uses it."""

import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from tests.certificates import Authority
from tests.functional.servers import READY, ROOT, SAMPLE, SAMPLE_FLAGS
from tests.process import COMMANDS, Process, free_ports, output_of

pytestmark = pytest.mark.deployed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

CONTAINER = ROOT / "deploy" / "container"
ENTRY_POINT = str(CONTAINER / "entrypoint.sh")
PATH = f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = [
    *PROJECT["project"]["dependencies"],
    *(
        each
        for extra in ("azure", "jwt", "onnxruntime")
        for each in PROJECT["project"]["optional-dependencies"][extra]
    ),
]
FALLBACK = PROJECT["project"]["optional-dependencies"]["tensorflow"]
BUILD = PROJECT["build-system"]["requires"]
REST_READY = "REST server listens on"
LOCKED = re.compile(r"^([\w.-]+)==([^ ;\\]+)", re.MULTILINE)

Run = Callable[..., Process]


@pytest.fixture
def run() -> Iterator[Run]:
    """The entry point with the installed command on its path."""
    with ExitStack() as stack:

        def start(*command: str, entry: str = ENTRY_POINT, **environment: str) -> Process:
            process = Process(entry, *command, env={"PATH": PATH, **environment})
            stack.callback(process.close)
            return process

        yield start


def test_the_dockerfile_has_no_findings() -> None:
    assert output_of("hadolint", "--no-color", ROOT / "Dockerfile") == []


@pytest.mark.parametrize(
    ("requirements", "lock"),
    [
        (RUNTIME, "requirements.txt"),
        (RUNTIME + FALLBACK, "tensorflow-requirements.txt"),
        (BUILD, "build-requirements.txt"),
    ],
    ids=["the server's", "those of the image with TensorFlow", "the build's"],
)
def test_every_package_is_locked_at_a_version_that_the_project_allows(
    requirements: list[str], lock: str
) -> None:
    locked: dict[str, list[str]] = {}
    for name, version in LOCKED.findall((CONTAINER / lock).read_text()):
        locked.setdefault(name, []).append(version)
    for requirement in map(Requirement, requirements):
        versions = locked[requirement.name]
        assert versions == list(requirement.specifier.filter(versions)), "make docker_lock"


def test_the_package_that_reports_usage_is_left_out() -> None:
    for lock in ("requirements.txt", "tensorflow-requirements.txt"):
        assert "openvino-telemetry" not in (CONTAINER / lock).read_text()


def test_the_image_with_tensorflow_has_the_packages_of_the_other_one() -> None:
    plain, larger = (
        set(LOCKED.findall((CONTAINER / lock).read_text()))
        for lock in ("requirements.txt", "tensorflow-requirements.txt")
    )
    assert plain < larger


def test_the_build_is_locked_from_what_the_project_asks_for() -> None:
    lines = (CONTAINER / "build-requirements.in").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == BUILD


@pytest.mark.parametrize(
    ("command", "first_line"),
    [
        pytest.param(["--version"], "TensorFlow ModelServer:", id="flags only"),
        pytest.param(
            ["tensorflow_model_server", "--version"], "TensorFlow ModelServer:", id="TF Serving's"
        ),
        pytest.param(["ie_serving", "--version"], "ie_serving", id="the server's"),
        pytest.param([ENTRY_POINT, "ie_serving", "--version"], "ie_serving", id="that of 2020"),
        pytest.param(["models", "--version"], "TensorFlow ModelServer:", id="no command"),
        pytest.param(["--help"], "usage: tensorflow_model_server", id="help"),
        pytest.param(
            ["tensorflow_model_server", "--help"], "usage: tensorflow", id="help of TF Serving's"
        ),
        pytest.param(["ie_serving", "--help"], "usage: ie_serving", id="help of the server's"),
    ],
)
def test_each_form_of_a_command_starts_the_server_it_means(
    run: Run, command: list[str], first_line: str
) -> None:
    process = run(*command)
    assert process.exit_code() == 0
    assert process.lines[0].startswith(first_line)


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--model_name", "digits", "--model_path", str(SAMPLE)], id="one model"),
        pytest.param([f"--model_path={SAMPLE}", "--model_name=digits"], id="with equal signs"),
    ],
)
def test_flags_of_openvino_model_server_start_ie_serving(run: Run, flags: list[str]) -> None:
    port, rest_port = free_ports(2)
    server = run(*flags, "--port", str(port), "--rest_port", str(rest_port), "--log_level", "DEBUG")
    assert "['digits']" in server.line(READY)


def test_a_configuration_file_of_openvino_model_server_is_served(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    place = ["--config_path", str(config)]
    managed = run("--add_to_config", *place, "--model_name", "digits", "--model_path", str(SAMPLE))
    assert managed.exit_code() == 0
    server = run(*place, "--port", str(free_ports(1)[0]))
    assert "['digits']" in server.line(READY)


@pytest.mark.parametrize("below", ["", "export/Servo", "digits"])
def test_serve_is_what_sagemaker_starts(run: Run, tmp_path: Path, below: str) -> None:
    place = tmp_path / below
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(SAMPLE, place, dirs_exist_ok=True)
    (port,) = free_ports(1)
    server = run("serve", SAGEMAKER_MODEL_DIR=str(tmp_path), SAGEMAKER_BIND_TO_PORT=str(port))
    server.line(REST_READY)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        assert client.get("/ping").status_code == 200
        reply = client.post("/invocations", json={"instances": [[0.0] * 64]})
        assert reply.status_code == 200, reply.text
        assert len(reply.json()["predictions"]) == 1
        assert client.get("/invocations").status_code == 404
        assert client.post("/ping").status_code == 200


@pytest.mark.parametrize("command", [[], ["tensorflow_model_server"], ["models"]])
@pytest.mark.parametrize("port", [8500, 8501])
def test_the_ports_are_those_of_tensorflow_serving(run: Run, port: int, command: list[str]) -> None:
    """Told by the complaint about a port that is taken, by this test or another process."""
    other = "--rest_api_port" if port == 8500 else "--port"
    with socket.socket() as holder:
        with suppress(OSError):
            holder.bind(("127.0.0.1", port))
            holder.listen()
        process = run(*command, f"{other}={free_ports(1)[0]}", MODEL_BASE_PATH=str(SAMPLE.parent))
        assert process.exit_code() == 255
    assert f"port {port}: Address already in use" in process.log


def test_the_model_is_named_by_the_environment_and_the_stop_signal_arrives(run: Run) -> None:
    port, rest_port = free_ports(2)
    ports = [f"--port={port}", f"--rest_api_port={rest_port}"]
    server = run(*ports, MODEL_NAME="digits", MODEL_BASE_PATH=str(SAMPLE.parent))
    assert "['digits']" in server.line(READY)
    server.popen.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0


def test_ovms_takes_any_flags(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ovms").symlink_to(ENTRY_POINT)
    process = run("--version", entry=str(tmp_path / "ovms"))
    assert process.exit_code() == 0
    assert process.lines[0].startswith("ie_serving")


def test_relative_paths_of_2020_begin_where_its_start_script_lies(run: Run, tmp_path: Path) -> None:
    (tmp_path / "start_server.sh").symlink_to(ENTRY_POINT)
    model = ["ie_serving", "model", "--model_name=digits", "--model_path=models/digits"]
    (tmp_path / "models").symlink_to(SAMPLE.parent)
    port = f"--port={free_ports(1)[0]}"
    server = run(*model, port, entry=str(tmp_path / "start_server.sh"))
    assert "['digits']" in server.line(READY)


@pytest.mark.parametrize("tls", ["plain", "TLS", "client certificates"])
@pytest.mark.parametrize("rest", [True, False], ids=["REST", "gRPC alone"])
def test_the_health_check_finds_the_ports_by_itself(
    run: Run, rest: bool, tls: str, tmp_path: Path
) -> None:
    """In a container no others are found; here it asks only those of the test."""
    port, rest_port = free_ports(2)
    flags = [f"--port={port}", f"--rest_port={rest_port if rest else 0}"]
    if tls != "plain":
        authority = Authority(tmp_path)
        pair = authority.server()
        flags += [f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}"]
        flags += [f"--tls_client_ca={authority.path}"] if tls != "TLS" else []
    server = run("ie_serving", "model", *SAMPLE_FLAGS, *flags)
    server.line(READY)
    check = "import healthcheck as h; assert {own} <= h.listening_ports(); assert h.ready({own})"
    own = {port, rest_port} if rest else {port}
    output_of(sys.executable, "-c", check.format(own=own), env={"PYTHONPATH": str(CONTAINER)})
