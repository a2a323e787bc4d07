"""What is said of requests that are not encrypted, by the clients that send them."""

import logging
from collections.abc import Callable

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from ie_serving.storage.backends import gcs, minio, s3
from ie_serving.storage.backends.bucket import exposed, proxy_of
from ie_serving.storage.backends.gcs import GcsOptions
from ie_serving.storage.backends.minio import MinioOptions
from ie_serving.storage.backends.s3 import S3Options
from tests.tables import named_by

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *map(str.upper, PROXIES)):
        monkeypatch.delenv(name, raising=False)


@named_by(
    "url proxy",
    ("url", "proxy", "expected"),
    [
        ("https://s3.example.com", "", []),
        ("http://minio:9000", "", []),
        ("http://10.0.0.1:9000", "", []),
        ("http://s3.example.com", "", [("requests", "s3.example.com")]),
        ("HTTP://8.8.8.8:80", "", [("requests", "8.8.8.8")]),
        ("http://s3.example.com", "http://proxy:3128", [("requests", "s3.example.com")]),
        ("http://s3.example.com", "https://proxy.example", [("requests", "s3.example.com")]),
        ("http://minio:9000", "http://proxy.example", [("requests by proxy", "proxy.example")]),
        ("http://minio:9000", "proxy.example:3128", [("requests by proxy", "proxy.example")]),
        ("http://minio:9000", "https://proxy.example", []),
        ("https://s3.example.com", "http://proxy.example:3128", []),
        ("https://s3.example.com", "http://me:word@proxy", []),
        ("https://s3.example.com", "https://me:word@proxy.example", []),
        (
            "https://s3.example.com",
            "me:word@proxy.example:3128",
            [("credentials of the proxy", "proxy.example")],
        ),
        (
            "http://s3.example.com",
            "http://me:word@proxy.example:3128",
            [
                ("requests", "s3.example.com"),
                ("requests by proxy", "proxy.example"),
                ("credentials of the proxy", "proxy.example"),
            ],
        ),
    ],
)
def test_requests_in_plain_http_to_a_public_address_are_exposed(
    url: str, proxy: str, expected: list[tuple[str, str]]
) -> None:
    assert list(exposed(url, proxy)) == expected


def test_the_proxy_is_the_one_of_the_scheme_unless_the_host_needs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in PROXIES[:3]:
        monkeypatch.setenv(name, f"http://{name[:-6]}.example")
    monkeypatch.setenv("no_proxy", "minio,.internal")
    assert proxy_of("http://s3.example.com") == "http://http.example"
    assert proxy_of("https://s3.example.com", "all") == "http://https.example"
    assert proxy_of("http://minio:9000", "all") == ""
    assert proxy_of("http://store.internal:9000") == ""
    monkeypatch.delenv("https_proxy")
    assert proxy_of("https://s3.example.com") == ""
    assert proxy_of("https://s3.example.com", "all") == "http://all.example"


KEYS = {"access_key": "k", "secret_key": "s"}


def of_s3(endpoint: str) -> None:
    s3.make_client(S3Options(endpoint=endpoint, **KEYS), "b")


def of_gcs(endpoint: str) -> None:
    gcs.make_client(GcsOptions(endpoint=endpoint, anonymous=True), "b")


def of_minio(endpoint: str) -> None:
    scheme, _, host = endpoint.partition("://")
    minio.make_client(MinioOptions(endpoint=host, secure=scheme == "https", **KEYS), "b")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    caplog.clear()
    return found


@pytest.mark.parametrize("make", [of_s3, of_gcs, of_minio])
def test_each_client_says_so(make: Callable[[str], None], caplog: pytest.LogCaptureFixture) -> None:
    make("http://s3.example.com:9000")
    assert warnings(caplog) == [
        "plain HTTP to a public address bucket=b host=s3.example.com what=requests"
    ]
    make("https://s3.example.com")
    make("http://minio:9000")
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("make", "asks"),
    [
        (of_s3, True),
        (of_gcs, True),
        (of_minio, False),
    ],
)
def test_clients_that_ask_a_proxy_warn_as_well(
    make: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    asks: bool,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:word@proxy.example:3128")
    make("https://s3.example.com")
    line = "plain HTTP to a public address bucket=b host=proxy.example"
    assert warnings(caplog) == [f'{line} what="credentials of the proxy"'] * asks


@pytest.mark.parametrize(
    ("make", "variable"), [(of_s3, "AWS_ENDPOINT_URL"), (of_gcs, "API_ENDPOINT_OVERRIDE")]
)
def test_an_endpoint_that_the_client_itself_reads_is_none_the_better(
    make: Callable[[str], None],
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(variable, "http://store.example.com")
    make("")
    assert warnings(caplog) == [
        "plain HTTP to a public address bucket=b host=store.example.com what=requests"
    ]


def test_the_client_of_gcs_has_the_private_attribute_that_is_emptied() -> None:
    """A release that renames it would ask for the bucket's location before each first request."""
    client = Client(project="none", credentials=AnonymousCredentials())
    assert client._bucket_metadata_cache is not None
