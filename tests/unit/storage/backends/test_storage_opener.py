"""Which storage a URL opens, and what is imported for it."""

import sys
from pathlib import Path

import pytest

from ie_serving.config.dialects.environment import storage_options
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.errors import ConfigError
from ie_serving.storage.backends.local import LocalStorage
from ie_serving.storage.backends.minio import MinioOptions
from ie_serving.storage.backends.storage_opener import check_urls, open_storage
from ie_serving.storage.mirror import Mirror
from ie_serving.storage.options import StorageOptions
from tests.process import output_of
from tests.tables import named_by

OPTIONS = StorageOptions(cache_dir=Path("/nowhere"), own=(MinioOptions(endpoint="minio:9000"),))


@pytest.mark.parametrize("url", ["/models/resnet", "models", "file:///models/resnet", "/a:b//c"])
def test_paths_are_local(url: str) -> None:
    storage = open_storage(url, OPTIONS)
    assert isinstance(storage, LocalStorage)
    assert storage.url == str(Path(url.removeprefix("file://")))


@pytest.mark.parametrize("url", ["s3://b/m", "gs://b/m", "minio://b/m", "S3://b", "s3://b/a b/?#"])
def test_urls_are_mirrored(url: str) -> None:
    storage = open_storage(url, OPTIONS)
    assert isinstance(storage, Mirror)
    assert storage.url == url


@named_by(
    "url",
    ("url", "text"),
    [
        (
            "http://host/m",
            "unknown scheme: use a path or one of file://, s3://, gs://, minio://, az://",
        ),
        ("s3://", "expected a bucket's name"),
        ("s3:///m", "expected a bucket's name"),
        ("file://models", "expected an absolute path"),
    ],
)
def test_a_url_that_cannot_be_opened_is_refused_with_its_cause(url: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        open_storage(url, OPTIONS)


@pytest.mark.parametrize("url", ["s3://key:s3cr3t@b/m", "https://user:s3cr3t@host/m"])
def test_credentials_in_a_url_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_storage(url, OPTIONS)
    assert "s3cr3t" not in str(raised.value)


def test_minio_needs_an_endpoint() -> None:
    with pytest.raises(ConfigError, match="set MINIO_ENDPOINT"):
        open_storage("minio://b/m", StorageOptions(cache_dir=Path("/nowhere")))


@named_by(
    "url",
    ("url", "variable"),
    [
        ("s3://b/m", "AWS_CA_BUNDLE"),
        ("gs://b/m", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("minio://b/m", "MINIO_CA_BUNDLE"),
        ("as://account/b/m", "REQUESTS_CA_BUNDLE"),
    ],
)
def test_a_file_that_is_missing_is_said_where_it_is_needed_only(url: str, variable: str) -> None:
    environ = {variable: "/no/such.pem", "MINIO_ENDPOINT": "minio:9000"}
    options = storage_options(environ, Faults())
    assert open_storage("/models", options).url == "/models"
    with pytest.raises(ConfigError, match=f"{variable}: /no/such.pem: no such file"):
        open_storage(url, options)


def test_urls_are_checked_together_and_each_fault_is_said_once() -> None:
    urls = ["/models", "s3://b/m", "http://host/m", "minio://b/m", "http://host/m"]
    with pytest.raises(ConfigError) as raised:
        check_urls(urls, StorageOptions(cache_dir=Path("/nowhere")))
    assert [fault.split(": ")[0] for fault in raised.value.faults] == [
        "http://host/m",
        "minio://b/m",
    ]
    check_urls(urls[:2], OPTIONS)


CLIENTS = {
    "/models": "",
    "s3://b/m": "boto3",
    "gs://b/m": "google.cloud.storage",
    "minio://b/m": "minio",
    "as://account/b/m": "urllib3",
}
NETWORKING = {"urllib.request", *filter(None, CLIENTS.values())}
OWN = {"boto3", "google.cloud.storage", "minio"}


PROGRAM = f"""
import os, sys
from pathlib import Path
from ie_serving.storage.backends.azure import AzureOptions
from ie_serving.storage.backends.storage_opener import open_storage
from ie_serving.storage.backends.minio import MinioOptions
from ie_serving.storage.options import StorageOptions
minio = MinioOptions(endpoint="127.0.0.1:1", secure=False)
options = StorageOptions(cache_dir=Path("/nowhere"), own=(minio, AzureOptions(anonymous=True)))
for url, client in {CLIENTS}.items():
    if not os.fork():
        storage = open_storage(url, options)
        assert not {NETWORKING} & {{*sys.modules}}
        hasattr(storage, "_remote") and storage._remote._kept.get()
        assert {OWN} & {{*sys.modules}} == {OWN} & {{client}}
        sys.exit(bool(client) and client not in sys.modules)
    assert os.wait()[1] == 0, url
"""


def test_a_client_is_imported_for_its_first_request() -> None:
    output_of(sys.executable, "-c", PROGRAM, cwd=Path(__file__).parents[4])
