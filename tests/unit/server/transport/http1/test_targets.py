"""Paths and queries of request targets."""

import httptools
import pytest

from ie_serving.server.transport.http1.heads import target
from tests.tables import named_by


@named_by(
    "url",
    ("url", "parts"),
    [
        (b"/", (b"/", b"")),
        (b"/a?", (b"/a", b"")),
        (b"/a?b?c", (b"/a", b"b?c")),
        (b"//a/b", (b"//a/b", b"")),
        (b"/%C3%A4", (b"/%C3%A4", b"")),
        (b"http://h", (b"/", b"")),
        (b"http://h/a?b", (b"/a", b"b")),
        (b"/a#c", (b"/a", b"")),
    ],
)
def test_a_target_is_divided_into_path_and_query(url: bytes, parts: tuple[bytes, bytes]) -> None:
    assert target(url) == parts


def test_a_user_before_the_host_is_refused() -> None:
    with pytest.raises(httptools.HttpParserInvalidURLError):
        target(b"http://me@h/a")
