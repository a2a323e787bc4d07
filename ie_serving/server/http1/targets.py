"""What stands between method and version of a request. Source: RFC 9112 section 3.2."""

from urllib.parse import unquote

import httptools


def target(url: bytes) -> tuple[bytes, str, bytes]:
    """Take a request's target apart.

    Returns:
        Path as it was sent, path with its escapes resolved, query.

    Raises:
        httptools.HttpParserInvalidURLError: neither a path nor a URL.
    """
    if url.startswith(b"/") and b"#" not in url:
        raw_path, _, query = url.partition(b"?")
    else:
        parsed = httptools.parse_url(url)
        raw_path, query = parsed.path or b"/", parsed.query or b""
    path = raw_path.decode("ascii")
    return raw_path, unquote(path) if "%" in path else path, query
