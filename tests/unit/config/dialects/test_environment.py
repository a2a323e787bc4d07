"""The environment variables of storage, each with its meaning."""

from pathlib import Path

import pytest

from ie_serving.config.dialects.environment import storage_options
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.errors import ConfigError
from ie_serving.storage.backends.gcs import GcsOptions
from ie_serving.storage.backends.minio import MinioOptions
from ie_serving.storage.backends.s3 import S3Options
from ie_serving.storage.options import StorageOptions


def read(**environ: str) -> StorageOptions:
    faults = Faults()
    options = storage_options(environ, faults)
    faults.check()
    return options


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, S3Options(), id="nothing set is AWS with its credential chain"),
        pytest.param(
            {"S3_ENDPOINT": "minio:9000"}, S3Options(endpoint="https://minio:9000"), id="no scheme"
        ),
        pytest.param(
            {"S3_ENDPOINT": "minio:9000", "S3_USE_HTTPS": "0"},
            S3Options(endpoint="http://minio:9000"),
            id="no scheme, TLS off by switch",
        ),
        pytest.param(
            {"S3_ENDPOINT": "https://s3.example"},
            S3Options(endpoint="https://s3.example"),
            id="https is kept",
        ),
        pytest.param(
            {"AWS_ENDPOINT_URL": "http://b", "AWS_ENDPOINT_URL_S3": "http://a"},
            S3Options(endpoint_variable="AWS_ENDPOINT_URL_S3"),
            id="boto3 reads its own variables",
        ),
        pytest.param(
            {"AWS_ENDPOINT_URL": "http://b", "S3_ENDPOINT": "http://a"},
            S3Options(endpoint="http://a"),
            id="which count where S3_ENDPOINT is not set",
        ),
        pytest.param({"AWS_DEFAULT_REGION": "eu-1"}, S3Options(region="eu-1"), id="region, CLI's"),
        pytest.param({"S3_REGION": "eu-1"}, S3Options(region="eu-1"), id="region, TensorFlow's"),
        pytest.param(
            {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"},
            S3Options(access_key="k", secret_key="s", session_token="t"),
            id="keys",
        ),
        pytest.param(
            {"S3_ADDRESSING_STYLE": "Virtual"}, S3Options(addressing="virtual"), id="virtual host"
        ),
        pytest.param({"S3_VERIFY_SSL": "0"}, S3Options(verify=False), id="no verification"),
        pytest.param({"S3_VERIFY_SSL": "off"}, S3Options(verify=False), id="in another word"),
        pytest.param({"S3_VERIFY_SSL": ""}, S3Options(), id="an empty variable is not set"),
        pytest.param(
            {"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-1"},
            S3Options(region="eu-1"),
            id="an empty variable gives way to the next",
        ),
        pytest.param({"S3_ANONYMOUS": "true"}, S3Options(anonymous=True), id="anonymous"),
        pytest.param({}, GcsOptions(), id="nothing set is Google with its default credentials"),
        pytest.param(
            {"STORAGE_EMULATOR_HOST": "localhost:4443"},
            GcsOptions(endpoint="http://localhost:4443"),
            id="GCS, emulator",
        ),
        pytest.param({"GCS_ANONYMOUS": "yes"}, GcsOptions(anonymous=True), id="GCS, anonymous"),
        pytest.param(
            {"MINIO_ENDPOINT": "minio:9000", "MINIO_ACCESS_KEY": "k", "MINIO_SECRET_KEY": "s"},
            MinioOptions(endpoint="minio:9000", access_key="k", secret_key="s", secure=True),
            id="MinIO, TLS is on by default",
        ),
        pytest.param(
            {"MINIO_ENDPOINT": "minio:9000", "MINIO_SECURE": "false"},
            MinioOptions(endpoint="minio:9000", secure=False),
            id="MinIO, TLS off by switch",
        ),
        pytest.param(
            {"MINIO_ENDPOINT": "http://minio:9000/"},
            MinioOptions(endpoint="minio:9000", secure=False),
            id="MinIO, TLS off by scheme",
        ),
        pytest.param({"MINIO_REGION": "eu"}, MinioOptions(region="eu"), id="MinIO, region"),
    ],
)
def test_variables_become_options_of_a_store(
    environ: dict[str, str], expected: S3Options | GcsOptions | MinioOptions
) -> None:
    assert read(**environ).of(type(expected)) == expected


def test_authorities_are_files(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    ca = str(tmp_path / "ca.pem")
    assert read(AWS_CA_BUNDLE=ca).of(S3Options).ca_bundle == ca
    assert read(MINIO_CA_BUNDLE=ca).of(MinioOptions).ca_bundle == ca
    assert read(SSL_CERT_FILE=ca).of(MinioOptions).ca_bundle == ca


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(ConfigError) as raised:
        read(
            S3_VERIFY_SSL="perhaps",
            S3_ADDRESSING_STYLE="host",
            MINIO_SECURE="2",
        )
    names = {fault.split(":")[0] for fault in raised.value.faults}
    assert names == {"S3_VERIFY_SSL", "S3_ADDRESSING_STYLE", "MINIO_SECURE"}


def test_the_cache_is_in_the_users_cache_directory() -> None:
    assert read(HOME="/home/u").cache_dir == Path("/home/u/.cache/ie_serving")
    assert read(HOME="/home/u", XDG_CACHE_HOME="/c").cache_dir == Path("/c/ie_serving")
    given = storage_options({}, Faults(), cache_dir=Path("/given"), cache_size_bytes=5)
    assert (given.cache_dir, given.cache_size_bytes) == (Path("/given"), 5)


def test_secrets_are_not_in_the_printed_form() -> None:
    options = read(
        AWS_ACCESS_KEY_ID="s3cr3t",
        AWS_SECRET_ACCESS_KEY="s3cr3t",
        AWS_SESSION_TOKEN="s3cr3t",
        MINIO_ACCESS_KEY="s3cr3t",
        MINIO_SECRET_KEY="s3cr3t",
    )
    assert "s3cr3t" not in repr(options)
