"""The built image, used as its users use it. `make docker_check` builds it and runs this.

Commands run by `buildah run` in a chroot: with the image's files, user and environment, but on the
host's process ids, and without a read-only root.
"""

import ctypes
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import httpx
import psutil
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tests.functional.servers import READY, ROOT, SAMPLE
from tests.functional.storage.repositories import gcs_admin, s3_admin, s3_environ
from tests.functional.storage.servers import READER, FakeGcs, Weed
from tests.process import PATIENCE_S, Process, output_of

BUILDAH = "/usr/bin/buildah"
PREFIX = "/opt/ie_serving/"
HELD_OUT = json.loads((ROOT / "examples" / "digits" / "held_out.json").read_text())
IMAGES = HELD_OUT["image"][:1]
DIGITS = HELD_OUT["digit"][:1]
SAMPLE_AT_MODELS = f"--volume={SAMPLE}:/models/digits:ro"


CLONE_NEWNET = 0x40000000


@pytest.fixture(scope="session", autouse=True)
def network() -> None:
    """A network of this process and its children, so that ports are free beside other tests."""
    assert ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0
    output_of("/usr/sbin/ip", "link", "set", "lo", "up")


def buildah(*arguments: str) -> str:
    return "\n".join(output_of(BUILDAH, *arguments)).strip()


@pytest.fixture(scope="session")
def image() -> dict[str, Any]:
    """The image's configuration."""
    inspected = json.loads(buildah("inspect", "--type", "image", os.environ["IMAGE"]))
    configuration: dict[str, Any] = inspected["Docker"]["config"]
    return configuration


@pytest.fixture(scope="session")
def container() -> Iterator[str]:
    name = buildah("from", "--isolation", "chroot", os.environ["IMAGE"])
    yield name
    buildah("rm", name)


class Container(Process):
    """A command in the image; `options` are those of `docker run`."""

    def __init__(self, container: str, options: list[str], command: list[str]) -> None:
        run = [BUILDAH, "run", "--isolation", "chroot", *options, container, "--", *command]
        super().__init__(*run)

    def server(self) -> psutil.Process:
        """Give the process that the entry point became."""
        inside = psutil.Process(self.popen.pid).children(recursive=True)
        return next(process for process in inside if process.cmdline()[0].startswith(PREFIX))

    def stop(self) -> int:
        """End the server as an engine does, which buildah cannot."""
        self.server().terminate()
        return self.exit_code()


Run = Callable[..., Container]


@pytest.fixture
def run(container: str, image: dict[str, Any]) -> Iterator[Run]:
    """`docker run OPTIONS IMAGE COMMAND`; what still runs ends with the test."""
    with ExitStack() as stack:

        def start(*command: str, options: list[str] | None = None) -> Container:
            given = [*image["Entrypoint"], *(command or image.get("Cmd") or ())]
            started = Container(container, options or [], given)
            stack.callback(started.close)
            return started

        yield start


@pytest.fixture
def healthy(container: str, image: dict[str, Any]) -> Callable[..., bool]:
    """What an engine concludes from HEALTHCHECK, with the options of the container."""
    kind, *command = image["Healthcheck"]["Test"]
    assert kind == "CMD"
    run = [BUILDAH, "run", "--isolation", "chroot"]
    return lambda *options: Process(*run, *options, container, "--", *command).exit_code() == 0


def over_rest(port: int) -> list[int]:
    url = f"http://127.0.0.1:{port}/v1/models/digits:predict"
    reply = httpx.post(url, json={"inputs": {"image": IMAGES}}, trust_env=False)
    digits: list[int] = reply.raise_for_status().json()["outputs"]["digit"]
    return digits


def over_grpc(port: int) -> list[int]:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "digits"
    request.inputs["image"].CopyFrom(tf.make_tensor_proto(IMAGES, tf.float32))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        reply = stub.Predict(request, PATIENCE_S)
    digits: list[int] = tf.make_ndarray(reply.outputs["digit"]).tolist()
    return digits


def test_without_a_command_it_serves_as_tensorflow_serving_does(
    run: Run, healthy: Callable[[], bool], image: dict[str, Any]
) -> None:
    """Builds on top of it and starts of others are root's; its server gives root up."""
    assert image["User"] == ""
    assert not healthy()
    server = run(options=[SAMPLE_AT_MODELS, "--env=MODEL_NAME=digits"])
    server.line(READY)
    assert over_rest(8501) == over_grpc(8500) == DIGITS
    assert healthy()
    process = server.server()
    assert (process.uids().real, process.gids().real) == (10001, 10001)
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000400" in status  # CAP_NET_BIND_SERVICE
    asked = run("curl", "--fail", "--silent", "http://localhost:8501/v1/models/digits")
    assert asked.exit_code() == 0
    assert "AVAILABLE" in asked.log
    assert server.stop() == 0
    assert "server has stopped" in server.log
    assert "runs as root" not in server.log


def test_the_command_of_2020(run: Run, healthy: Callable[[], bool], tmp_path: Path) -> None:
    config = {"model_config_list": [{"config": {"name": "digits", "base_path": "/opt/ml/digits"}}]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tmp_path.chmod(0o755)
    options = [f"--volume={tmp_path}:/opt/ml:ro", f"--volume={SAMPLE}:/opt/ml/digits:ro"]
    (tmp_path / "digits").mkdir()
    ports = ["--port", "9001", "--rest_port", "8001"]
    start = ["/ie-serving-py/start_server.sh", "ie_serving", "config"]
    run(*start, "--config_path", "/opt/ml/config.json", *ports, options=options).line(READY)
    assert over_rest(8001) == over_grpc(9001) == DIGITS
    assert healthy()


def test_the_server_alone_with_grpc_alone(run: Run, healthy: Callable[[], bool]) -> None:
    flags = ["--model_name=digits", "--model_path=/models/digits"]
    run("ie_serving", "model", *flags, options=[SAMPLE_AT_MODELS]).line(READY)
    assert over_grpc(9000) == DIGITS
    assert healthy()


@pytest.mark.parametrize("scheme", ["s3", "minio"])
def test_models_from_s3_and_minio(run: Run, tmp_path: Path, scheme: str) -> None:
    """Of each store's client enough is left in the image."""
    with Weed(tmp_path) as store:
        s3 = s3_admin(store)
        s3.create_bucket(Bucket="models")
        for path in SAMPLE.glob("*/*"):
            s3.upload_file(str(path), "models", f"digits/{path.relative_to(SAMPLE)}")
        serve_from(run, f"{scheme}://models", s3_environ(scheme, store.url, READER))


def test_models_from_google_cloud_storage(run: Run) -> None:
    with FakeGcs() as store:
        bucket = gcs_admin(store).create_bucket("models")
        for path in SAMPLE.glob("*/*"):
            bucket.blob(f"digits/{path.relative_to(SAMPLE)}").upload_from_filename(path)
        serve_from(run, "gs://models", {"STORAGE_EMULATOR_HOST": store.url})


def serve_from(run: Run, parent: str, environment: dict[str, str]) -> None:
    environment |= {"MODEL_NAME": "digits", "MODEL_BASE_PATH": parent}
    server = run(options=[f"--env={name}={value}" for name, value in environment.items()])
    server.line(READY)
    assert over_rest(8501) == DIGITS
    assert server.stop() == 0


def test_its_server_binds_ports_below_1024(run: Run, healthy: Callable[..., bool]) -> None:
    flags = ["--model_path=/models/digits", "--model_name=digits", "--port=80"]
    server = run("ie_serving", "model", *flags, options=[SAMPLE_AT_MODELS])
    server.line(READY)
    assert over_grpc(80) == DIGITS
    assert server.server().uids().real == 10001
    assert healthy()


def test_it_gives_root_up_without_the_capability_for_such_ports(
    run: Run, healthy: Callable[..., bool]
) -> None:
    lost = "--cap-drop=CAP_NET_BIND_SERVICE"
    server = run(options=[SAMPLE_AT_MODELS, "--env=MODEL_NAME=digits", lost])
    server.line(READY)
    status = Path(f"/proc/{server.server().pid}/status").read_text()
    assert "Uid:\t10001" in status
    assert "CapEff:\t0000000000000000" in status
    assert healthy(lost)


@pytest.mark.parametrize(("user", "number"), [("ovms", 5000), ("123456", 123456), ("0", 0)])
def test_a_variable_names_the_user_that_root_is_given_up_for(
    run: Run, healthy: Callable[..., bool], user: str, number: int
) -> None:
    variable = f"--env=IE_SERVING_USER={user}"
    server = run(options=[SAMPLE_AT_MODELS, "--env=MODEL_NAME=digits", variable])
    server.line(READY)
    assert server.server().uids().real == number
    assert healthy(variable)


def test_without_the_capabilities_to_give_root_up_the_server_warns(run: Run) -> None:
    lost = ["--cap-drop=CAP_SETUID", "--cap-drop=CAP_SETGID"]
    server = run(options=[SAMPLE_AT_MODELS, "--env=MODEL_NAME=digits", *lost])
    server.line("WARNING - server runs as root")
    server.line(READY)


@pytest.mark.parametrize("user", ["10001:10001", "ovms", "123456:0"])
def test_a_given_user_stays(run: Run, user: str) -> None:
    server = run(options=[SAMPLE_AT_MODELS, "--env=MODEL_NAME=digits", f"--user={user}"])
    server.line(READY)
    given = {"ovms": "5000"}.get(user, user.partition(":")[0])
    assert str(server.server().uids().real) == given
    assert over_rest(8501) == DIGITS


def test_scripts_for_the_image_of_2020_find_its_environment(run: Run) -> None:
    script = ". /ie-serving-py/.venv/bin/activate; ie_serving --version"
    assert run("bash", "-ec", script).exit_code() == 0


@pytest.mark.parametrize("place", ["/", "/work"])
def test_its_user_can_write_only_where_that_is_meant(run: Run, place: str) -> None:
    written = "touch here /models/there && mkdir -p /models/m/1 && ! touch /usr/bin/x"
    options = [f"--workingdir={place}"]
    assert run("sh", "-c", f"{written} && rm here", options=options).exit_code() == 0
    find = "find / -xdev -writable ( -type d -o -type f ) -not -path /home/ie_serving/*"
    found = run(*find.split(), "-print", "-not", "-path", "/proc/*", options=options)
    found.exit_code()
    places = {"/tmp", "/var/tmp", "/run/lock", "/var/lock", "/home/ie_serving", "/dev/shm"}
    given = ("/var/cache/ie_serving", "/models")
    paths = {line for line in found.lines if line.startswith("/")}
    assert paths.issuperset(given)
    notes = ("/tmp/ie_serving-run-",)  # where a server tells the commands its address
    others = {path for path in paths if not path.startswith((*given, *notes))}
    assert others <= places | {"/", "/work"}


def test_directories_of_volumes_stay_their_owners(run: Run, tmp_path: Path) -> None:
    volume = tmp_path / "models"
    volume.mkdir()
    assert run("true", options=[f"--volume={volume}:/models"]).exit_code() == 0
    assert volume.stat().st_uid == os.geteuid()


@pytest.mark.parametrize(
    "words", [["tensorflow_model_server"], ["/usr/bin/tensorflow_model_server"], ["model"]]
)
def test_the_ports_and_the_model_stand_in_front_as_in_tensorflow_serving(
    run: Run, words: list[str]
) -> None:
    run(
        *words,
        "--model_name=digits",
        "--model_base_path=/models/digits",
        options=[SAMPLE_AT_MODELS],
    ).line(READY)
    assert over_rest(8501) == over_grpc(8500) == DIGITS


@pytest.mark.parametrize("command", ["ovms", "/ovms/bin/ovms", ""])
def test_the_command_of_openvino_model_server(run: Run, command: str) -> None:
    flags = [
        "--model_path=/models/digits",
        "--model_name=digits",
        "--port=9001",
        "--rest_port=8001",
    ]
    run(*[command] * bool(command), *flags, options=[SAMPLE_AT_MODELS]).line(READY)
    assert over_rest(8001) == over_grpc(9001) == DIGITS


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["--help"], "usage: tensorflow_model_server"),
        (["ovms", "--help"], "usage: ie_serving"),
        (["ie_serving", "--help"], "usage: ie_serving"),
    ],
)
def test_help_is_the_commands_own(run: Run, words: list[str], usage: str) -> None:
    asked = run(*words)
    assert asked.exit_code() == 0
    assert asked.lines[0].startswith(usage)


MADE_OF_IT = """
RUN mkdir -p /models/digits /app && apt-get --version && chmod 755 /models/digits
COPY models.tar /tmp/models.tar
RUN tar -xf /tmp/models.tar -C /models/digits && rm /tmp/models.tar
WORKDIR /app
RUN touch settings && chown root:root settings
ENV MODEL_NAME=digits PORT=8501
"""
OVERWRITTEN = r"""
RUN printf '#!/bin/bash\n%s --port=8500 --rest_api_port=$PORT --model_name=$MODEL_NAME %s "$@"\n' \
    'exec tensorflow_model_server' '--model_base_path=/models/$MODEL_NAME' \
    > /usr/bin/tf_serving_entrypoint.sh && chmod +x /usr/bin/tf_serving_entrypoint.sh
"""


@pytest.mark.parametrize("entry", ["", OVERWRITTEN], ids=["its entry point", "an own one"])
def test_images_are_made_of_it_as_of_tensorflow_servings(tmp_path: Path, entry: str) -> None:
    with tarfile.open(tmp_path / "models.tar", "w") as tar:
        tar.add(SAMPLE, ".")
    dockerfile = f"FROM {os.environ['IMAGE']}\n{MADE_OF_IT}{entry}"
    (tmp_path / "Dockerfile").write_text(dockerfile)
    built = buildah("bud", "--quiet", "--isolation", "chroot", "--format", "docker", str(tmp_path))
    made = buildah("from", "--isolation", "chroot", built)
    server = Container(made, [], ["/usr/bin/tf_serving_entrypoint.sh"])
    try:
        server.line(READY)
        assert over_rest(8501) == over_grpc(8500) == DIGITS
        assert server.server().uids().real == (0 if entry else 10001)
        assert ("WARNING - server runs as root" in server.log) == bool(entry)
    finally:
        server.close()
        buildah("rm", made)
        buildah("rmi", built)
