"""Which addresses are public: the table of docs/guide/stores.md, and what looks like its rows."""

import pytest

from ie_serving.core.values.hosts import host_of, is_public
from tests.tables import named_by

OWN = (
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.8.9.1", "::1"),
    *("0.0.0.0", "::"),
    *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1"),
    *("::ffff:10.0.0.1", "::ffff:127.0.0.1"),
    *("minio", "MinIO-1", "minio_1", "s3"),
    *("minio.default.svc", "minio.default.svc.", "minio.default.svc.cluster.local"),
    *("nas.local", "minio.home.arpa", "host.docker.internal", "metadata.google.internal"),
    *("a.b.internal", "minio.test", "127.1", "0x7f000001", "2130706433"),
)
PUBLIC = (
    *("s3.us-east-1.amazonaws.com", "storage.googleapis.com", "example.com", "minio.example.com."),
    *("8.8.8.8", "172.15.0.1", "172.32.0.1", "192.169.0.1", "11.0.0.1", "128.0.0.1", "100.64.0.1"),
    *("203.0.113.5", "2001:db8::1", "2606:4700::1111", "fec0::1", "::ffff:8.8.8.8"),
    *("134744072", "0x08080808", "8.8"),  # 8.8.8.8, and 8.0.0.8, in other words
    *("minio.default", "minio.storage", "minio.lan", "minio.corp", "minio."),
    *("local.example.com", "localhost.example.com", "notlocalhost.com", "x.notinternal"),
    *(
        "",
        "minio\uff0ecom",
        "minio\u3002com",
        "mini%6f",
        "a b",
        "10.0.0.1 b",
        "a:b",
        "a..local",
        ".local",
    ),
)


@pytest.mark.parametrize("host", OWN)
def test_own(host: str) -> None:
    assert not is_public(host)


@pytest.mark.parametrize("host", PUBLIC)
def test_an_address_of_the_table_is_public(host: str) -> None:
    assert is_public(host)


@named_by(
    "address",
    ("address", "host"),
    [
        ("minio", "minio"),
        ("minio:9000", "minio"),
        ("http://minio:9000/path", "minio"),
        ("HTTP://Minio.Example", "minio.example"),
        ("//minio:9000", "minio"),
        ("user:word@minio:9000", "minio"),
        ("https://user:word@minio.example", "minio.example"),
        ("127.0.0.1:9000", "127.0.0.1"),
        ("[::1]:9000", "::1"),
        ("http://[fd00::1]", "fd00::1"),
        ("", ""),
        ("::1", ""),
        ("fd00::1", ""),
        ("[::1", ""),
        ("minio:port", ""),
    ],
)
def test_the_host_of_an_address_is_found(address: str, host: str) -> None:
    assert host_of(address) == host
