"""What a head has to say of version, host and transfer encoding.

`tests/functional/protocols` sends the usual faults.
"""

from collections.abc import Callable

import pytest

from ie_serving.server.transport.http1.faults import RequestRefused
from ie_serving.server.transport.http1.heads import by_name, check_host, is_chunked, spoken


def test_headers_of_one_name_are_a_list() -> None:
    headers = [(b"host", b"h"), (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", b"")]
    assert by_name(headers) == {b"host": b"h", b"a": b"1,3,", b"b": b"2"}
    assert by_name(headers[:2]) == {b"host": b"h", b"a": b"1"}


def test_a_head_may_name_versions_hosts_and_chunks_in_these_forms() -> None:
    assert [spoken(version) for version in ("1.0", "1.1", "1.9")] == ["1.0", "1.1", "1.1"]
    for host in b"a.b-c_d:8501", b"127.0.0.1:1", b"[fe80::1%25eth0]:80":
        check_host("1.1", [(b"x", b"y"), (b"host", host)])
    assert is_chunked("1.1", {b"transfer-encoding": b" chunked\t"})
    assert not is_chunked("1.1", {})


@pytest.mark.parametrize(
    ("read", "status", "text"),
    [
        pytest.param(lambda: spoken("9.9"), 505, r"speak HTTP/1\.1", id="another version"),
        pytest.param(lambda: check_host("1.1", []), 400, "one Host header, not 0", id="no host"),
        pytest.param(
            lambda: check_host("1.0", [(b"host", b"a")] * 2),
            400,
            "one Host header, not 2",
            id="two hosts",
        ),
        pytest.param(
            lambda: check_host("1.1", [(b"host", b"::1")]),
            400,
            "must hold a name or an address",
            id="an address without brackets",
        ),
        pytest.param(
            lambda: check_host("1.1", [(b"host", b"a?")]),
            400,
            "must hold a name or an address",
            id="a question mark in a host",
        ),
        pytest.param(
            lambda: is_chunked("1.0", {b"transfer-encoding": b"chunked"}),
            400,
            r"HTTP/1\.0 knows no",
            id="chunks in HTTP/1.0",
        ),
    ],
)
def test_a_head_that_breaks_a_rule_is_refused(
    read: Callable[[], object], status: int, text: str
) -> None:
    with pytest.raises(RequestRefused, match=text) as refused:
        read()
    assert refused.value.status == status
