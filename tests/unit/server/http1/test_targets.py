"""Paths and queries of request targets."""

import pytest

from ie_serving.server.http1.targets import target


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        (b"/", (b"/", "/", b"")),
        (b"/a?", (b"/a", "/a", b"")),
        (b"/a?b?c", (b"/a", "/a", b"b?c")),
        (b"//a/b", (b"//a/b", "//a/b", b"")),
        (b"/%C3%A4", (b"/%C3%A4", "/ä", b"")),
        (b"http://h", (b"/", "/", b"")),
        (b"http://h/a?b", (b"/a", "/a", b"b")),
        (b"/a#c", (b"/a", "/a", b"")),
    ],
)
def test_targets(url: bytes, parts: tuple[bytes, str, bytes]) -> None:
    assert target(url) == parts
