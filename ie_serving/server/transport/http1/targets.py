"""Parses the target of a request line. Source: RFC 9112 section 3.2."""

import httptools


def target(url: bytes) -> tuple[bytes, bytes]:
    """Return path and query of a request's target, as sent.

    Raises:
        httptools.HttpParserInvalidURLError: neither a path nor a URL, or a URL with a user.
        UnicodeDecodeError: the path is not ASCII.
    """
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
    else:
        parsed = httptools.parse_url(url)
        if parsed.userinfo is not None:  # RFC 9110 section 4.2.4
            raise httptools.HttpParserInvalidURLError("a user before the host")
        path, query = parsed.path or b"/", parsed.query or b""
    path.decode("ascii")
    return path, query
