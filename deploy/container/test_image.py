"""The built image, used as its users use it. `make docker_check` builds it and runs this.

Commands run by `buildah run` in a chroot: with the image's files, user and environment, but on the
host's process ids, and without a read-only root.
"""

import json
import os
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
def healthy(container: str, image: dict[str, Any]) -> Callable[[], bool]:
    """What an engine concludes from HEALTHCHECK."""
    kind, *command = image["Healthcheck"]["Test"]
    assert kind == "CMD"
    check = [BUILDAH, "run", "--isolation", "chroot", container, "--", *command]
    return lambda: Process(*check).exit_code() == 0


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
    run: Run, healthy: Callable[[], bool]
) -> None:
    server = run(options=[SAMPLE_AT_MODELS, "--env=MODEL_NAME=digits"])
    server.line(READY)
    assert over_rest(8501) == over_grpc(8500) == DIGITS
    assert healthy()


@pytest.mark.parametrize("command", ["tensorflow_model_server", "/usr/bin/tensorflow_model_server"])
def test_the_command_of_tensorflow_serving(run: Run, command: str) -> None:
    flags = ["--model_name=digits", "--model_base_path=/models/digits", "--rest_api_port=8501"]
    run(command, *flags, options=[SAMPLE_AT_MODELS]).line(READY)
    assert over_rest(8501) == over_grpc(8500) == DIGITS


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


def test_the_stop_signal_reaches_the_server(run: Run) -> None:
    server = run(options=[SAMPLE_AT_MODELS, "--env=MODEL_NAME=digits"])
    server.line(READY)
    assert server.stop() == 0
    assert "state=END" in server.log


def test_it_is_unhealthy_while_nothing_serves(healthy: Callable[[], bool]) -> None:
    assert not healthy()


def test_its_user_is_a_number_and_not_root(image: dict[str, Any], run: Run) -> None:
    """Kubernetes' runAsNonRoot compares numbers."""
    assert image["User"] == "10001:10001"
    asked = run("id", "-u")
    assert asked.exit_code() == 0
    assert asked.lines == ["10001"]


def test_its_user_can_write_only_where_that_is_meant(run: Run) -> None:
    find = "find / -xdev -writable ( -type d -o -type f ) -not -path /home/ie_serving/*"
    found = run(*find.split(), "-print", "-not", "-path", "/proc/*")
    found.exit_code()
    places = {"/tmp", "/var/tmp", "/run/lock", "/var/lock", "/home/ie_serving", "/dev/shm"}
    written = {line for line in found.lines if line.startswith("/")}
    assert "/var/cache/ie_serving" in written
    assert {line for line in written if not line.startswith("/var/cache/ie_serving")} <= places
