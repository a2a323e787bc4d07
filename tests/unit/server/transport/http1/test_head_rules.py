"""What a head has to say of version, host and transfer encoding."""

import pytest

from ie_serving.server.transport.http1.faults import RequestRefused
from ie_serving.server.transport.http1.heads import by_name, check_host, is_chunked, spoken


@pytest.mark.parametrize(
    ("version", "expected"), [("1.0", "1.0"), ("1.1", "1.1"), ("1.2", "1.1"), ("1.9", "1.1")]
)
def test_versions(version: str, expected: str) -> None:
    assert spoken(version) == expected


@pytest.mark.parametrize("version", ["0.9", "2.0", "9.9"])
def test_other_versions(version: str) -> None:
    with pytest.raises(RequestRefused, match=r"speak HTTP/1\.1") as refused:
        spoken(version)
    assert refused.value.status == 505


def test_headers_of_one_name_are_a_list() -> None:
    headers = [(b"host", b"h"), (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", b"")]
    assert by_name(headers) == {b"host": b"h", b"a": b"1,3,", b"b": b"2"}
    assert by_name(headers[:2]) == {b"host": b"h", b"a": b"1"}


@pytest.mark.parametrize(
    "host",
    [b"", b"a", b"a:", b"a.b-c_d:8501", b"127.0.0.1:1", b"[::1]", b"[fe80::1%25eth0]:80", b"%41"],
)
def test_hosts(host: bytes) -> None:
    check_host("1.1", [(b"x", b"y"), (b"host", host)])


@pytest.mark.parametrize("host", [b"a b", b"a/b", b"u@a", b"a:b", b"[::1", b"::1", b"a,b c", b"a?"])
def test_what_is_no_host(host: bytes) -> None:
    with pytest.raises(RequestRefused, match="neither a name nor an address"):
        check_host("1.1", [(b"host", host)])


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_how_many_hosts_there_are(version: str, count: int) -> None:
    headers = [(b"host", b"a")] * count
    if count == 1 or (count == 0 and version == "1.0"):
        check_host(version, headers)
        return
    with pytest.raises(RequestRefused, match=f"one Host header, not {count}"):
        check_host(version, headers)


@pytest.mark.parametrize(
    ("encoding", "status"),
    [
        (b"chunked", 0),
        (b"CHUNKED", 0),
        (b" chunked\t", 0),
        (b"gzip, chunked", 501),
        (b"chunked, gzip", 400),
        (b"chunked, chunked", 400),
        (b"gzip", 400),
        (b"", 400),
    ],
)
def test_transfer_encodings(encoding: bytes, status: int) -> None:
    fields = {b"transfer-encoding": encoding}
    if not status:
        assert is_chunked("1.1", fields)
        return
    with pytest.raises(RequestRefused) as refused:
        is_chunked("1.1", fields)
    assert refused.value.status == status


def test_bodies_that_are_not_encoded() -> None:
    assert not is_chunked("1.1", {})
    with pytest.raises(RequestRefused, match=r"HTTP/1\.0 knows no"):
        is_chunked("1.0", {b"transfer-encoding": b"chunked"})
