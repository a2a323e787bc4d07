"""What every command makes of a store's address: encrypted unless its user says otherwise."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ie_serving.compat.kibernetika import dialect as kibernetika
from ie_serving.compat.sagemaker import container as sagemaker
from ie_serving.compat.stfs import dialect as simple_tensorflow_serving
from ie_serving.config.dialects import ie_serving, tensorflow_model_server
from ie_serving.config.settings import ParsedCommandLine
from ie_serving.storage.backends.gcs import GcsOptions
from ie_serving.storage.backends.minio import MinioOptions
from ie_serving.storage.backends.s3 import S3Options
from ie_serving.storage.options import StorageOptions

Read = Callable[[Mapping[str, str], Path], StorageOptions]

ADDRESS = ("--model_name=m", "--model_path=s3://b/m")


def read_by(parse: Callable[[list[str], Mapping[str, str]], ParsedCommandLine], *line: str) -> Read:
    def read(environ: Mapping[str, str], directory: Path) -> StorageOptions:
        (directory / "m" / "1").mkdir(parents=True)
        (directory / "m" / "1" / "model.onnx").touch()
        storage = parse(list(line), {"SAGEMAKER_MODEL_DIR": str(directory), **environ}).storage
        assert storage
        return storage

    return read


OVMS = read_by(ie_serving.parse, *ADDRESS, "--port=9000")
OTHERS = {
    "2020": read_by(ie_serving.parse, "model", *ADDRESS),
    "check": read_by(ie_serving.parse, "check", "--model_path=s3://b/m"),
    "SageMaker": read_by(sagemaker.parse, "serve"),
    "TensorFlow Serving": read_by(
        tensorflow_model_server.parse, "--port=8500", "--model_base_path=s3://b/m"
    ),
    "simple_tensorflow_serving": read_by(
        simple_tensorflow_serving.parse, "--model_base_path=s3://b/m"
    ),
    "kibernetika": read_by(kibernetika.parse, "--model-path=s3://b/m"),
}
EVERY = [
    *(pytest.param(read, id=name) for name, read in OTHERS.items()),
    pytest.param(OVMS, id="OVMS"),
]

VARIABLES = ("S3_ENDPOINT", "STORAGE_EMULATOR_HOST", "MINIO_ENDPOINT")
PUBLIC = ("s3.us-east-1.amazonaws.com", "8.8.8.8:9000", "[2606:4700::1]:9000", "minio.corp:9000")
OWN = ("minio:9000", "127.0.0.1:9000", "[fd00::1]:9000", "10.1.2.3", "minio.default.svc:9000")


def urls(options: StorageOptions) -> list[str]:
    """Where S3, Google's emulator and MinIO are reached."""
    minio = options.of(MinioOptions)
    at_minio = f"{'https' if minio.secure else 'http'}://{minio.endpoint}"
    return [options.of(S3Options).endpoint, options.of(GcsOptions).endpoint, at_minio]


@pytest.mark.thinned
@pytest.mark.parametrize("address", PUBLIC)
@pytest.mark.parametrize("read", EVERY)
def test_a_public_address_without_a_scheme_is_https(
    read: Read, address: str, tmp_path: Path
) -> None:
    found = urls(read(dict.fromkeys(VARIABLES, address), tmp_path))
    assert found == [f"https://{address}"] * 3


@pytest.mark.thinned
@pytest.mark.parametrize("address", OWN)
@pytest.mark.parametrize("read", OTHERS.values(), ids=OTHERS)
def test_so_is_any_other_but_an_emulator(read: Read, address: str, tmp_path: Path) -> None:
    found = urls(read(dict.fromkeys(VARIABLES, address), tmp_path))
    assert found == [f"https://{address}", f"http://{address}", f"https://{address}"]


@pytest.mark.parametrize("address", OWN)
def test_users_of_ovms_keep_plain_http_to_private_addresses(address: str, tmp_path: Path) -> None:
    """OVMS knows nothing of `minio://`, whose client takes TLS for granted."""
    found = urls(OVMS(dict.fromkeys(VARIABLES, address), tmp_path))
    assert found == [f"http://{address}", f"http://{address}", f"https://{address}"]


@pytest.mark.parametrize("address", ["s3.example.com", "minio:9000"])
@pytest.mark.parametrize("read", EVERY)
def test_the_scheme_that_the_user_names_counts(read: Read, address: str, tmp_path: Path) -> None:
    def endpoint(given: str, directory: str, **environ: str) -> str:
        return read({"S3_ENDPOINT": given, **environ}, tmp_path / directory).of(S3Options).endpoint

    assert endpoint(address, "a", S3_USE_HTTPS="0") == f"http://{address}"
    assert endpoint(address, "b", S3_USE_HTTPS="1") == f"https://{address}"
    assert endpoint(f"http://{address}", "c", S3_USE_HTTPS="1") == f"http://{address}"
    assert endpoint(f"https://{address}", "d", S3_USE_HTTPS="0") == f"https://{address}"
