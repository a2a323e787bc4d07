"""Heads of HTTP/1.1 requests and what they come to.

Sections are RFC 9112's where no other RFC is named.
"""

from tests.functional.protocols.http1_client import DIGITS, Case, get, raw

KB = 1024


def _first(line: str) -> bytes:
    """A request with this first line."""
    return raw(f"{line}\r\nHost: x\r\n\r\n")


REQUEST_LINE = (
    Case("3", "GET", "200", get()),
    Case("3", "two blanks behind the method", "200", _first(f"GET  {DIGITS} HTTP/1.1")),
    Case("3", "two blanks behind the target", "200", _first(f"GET {DIGITS}  HTTP/1.1")),
    Case("3", "a tab for a blank", "501 close", _first(f"GET\t{DIGITS} HTTP/1.1")),
    Case("3", "a blank before the method", "501 close", _first(f" GET {DIGITS} HTTP/1.1")),
    Case("3", "a blank behind the version", "400 close", _first(f"GET {DIGITS} HTTP/1.1 ")),
    Case("3", "no target", "400 close", _first("GET HTTP/1.1")),
    Case("3", "no version", "505 close", _first(f"GET {DIGITS}")),
    Case("2.2", "an empty line before it", "200", b"\r\n" + get()),
    Case("2.2", "two empty lines before it", "200", b"\r\n\r\n" + get()),
    Case(
        "2.2",
        "a line that ends with LF alone",
        "400 close",
        raw(f"GET {DIGITS} HTTP/1.1\nHost: x\r\n\r\n"),
    ),
    Case(
        "2.2",
        "a line that ends with CR alone",
        "400 close",
        raw(f"GET {DIGITS} HTTP/1.1\rHost: x\r\n\r\n"),
    ),
    Case(
        "2.2",
        "a blank before the first header",
        "400 close",
        raw(f"GET {DIGITS} HTTP/1.1\r\n Host: x\r\n\r\n"),
    ),
    Case("2.2", "what is no HTTP", "501 close", b"\x15\x03\x01\x02\x00\x01\r\n\r\n"),
    Case("2.2", "a hello of TLS", "400 close", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"),
    Case("3.1", "a method in lower case", "501 close", _first(f"get {DIGITS} HTTP/1.1")),
    Case("3.1", "a method that nobody knows", "501 close", _first(f"FROB {DIGITS} HTTP/1.1")),
    Case("3.1", "a method with a bracket", "501 close", _first(f"GE(T {DIGITS} HTTP/1.1")),
    Case("2.3", "HTTP/1.0", "200 close", get(version="1.0")),
    Case("2.3", "HTTP/1.2", "200", get(version="1.2")),
    Case("2.3", "HTTP/1.9", "200", get(version="1.9")),
    Case("2.3", "HTTP/2.0", "505 close", get(version="2.0")),
    Case("2.3", "HTTP/0.9", "505 close", get(version="0.9")),
    Case("2.3", "HTTP/1", "400 close", get(version="1")),
    Case("2.3", "HTTP/1.10", "400 close", get(version="1.10")),
    Case("2.3", "HTTP/01.1", "400 close", get(version="01.1")),
    Case("2.3", "http/1.1", "400 close", _first(f"GET {DIGITS} http/1.1")),
    Case("2.3", "HTTPS/1.1", "400 close", _first(f"GET {DIGITS} HTTPS/1.1")),
)

TARGET = (
    Case("3.2.1", "with a query", "404", get(f"{DIGITS}?x=1")),
    Case("3.2.1", "escaped", "200", get("/v1/models/%64igits")),
    Case("3.2.1", "with a fragment", "200", get(f"{DIGITS}#x")),
    Case("3.2.1", "a path that is not there", "404", get("/nowhere")),
    Case("3.2.1", "a path with two slashes", "404", get(f"/{DIGITS}")),
    Case("3.2.1", "bytes beyond ASCII", "400 close", get("/v1/models/d\xefgits")),
    Case("3.2.1", "a zero byte", "400 close", get("/v1/models/d\0gits")),
    Case("3.2.1", "a target without a slash", "400 close", get("v1/models/digits")),
    Case("3.2.2", "a whole URL", "200", get(f"http://localhost{DIGITS}")),
    Case("3.2.2", "a whole URL with a port", "200", get(f"http://localhost:80{DIGITS}")),
    Case("3.2.2", "a URL of the host alone: the page at /", "200", get("http://localhost")),
    Case("3.2.2", "a scheme alone", "400 close", get("http://")),
    Case("3.2.3", "CONNECT", "501 close", _first("CONNECT localhost:80 HTTP/1.1")),
    Case("3.2.4", "OPTIONS *", "404", _first("OPTIONS * HTTP/1.1")),
    Case("3", "a target of 60 KB", "404", get("/v1/models/" + "x" * 60 * KB)),
    Case("RFC 9110 15.5.15", "a target of 70 KB", "414 close", get("/v1/models/" + "x" * 70 * KB)),
    Case("RFC 9110 15.5.15", "a target of 1 MB", "414 close", get("/v1/models/" + "x" * KB * KB)),
)


def _hosts(*lines: str, version: str = "1.1") -> bytes:
    return raw("\r\n".join((f"GET {DIGITS} HTTP/{version}", *lines, "\r\n")))


HOST = (
    Case("3.2", "no Host", "400 close", _hosts()),
    Case("3.2", "no Host in HTTP/1.0", "200 close", _hosts(version="1.0")),
    Case("3.2", "Host twice", "400 close", _hosts("Host: a", "Host: b")),
    Case("3.2", "Host twice, alike", "400 close", _hosts("Host: a", "Host: a")),
    Case("3.2", "two hosts", "400 close", _hosts("Host: a, b")),
    Case("3.2", "a blank in it", "400 close", _hosts("Host: a b")),
    Case("3.2", "a slash in it", "400 close", _hosts("Host: a/b")),
    Case("3.2", "a user in it", "400 close", _hosts("Host: u@a")),
    Case("3.2", "a port that is none", "400 close", _hosts("Host: a:b")),
    Case("3.2", "empty", "200", _hosts("Host:")),
    Case("3.2", "with a port", "200", _hosts("Host: a:8501")),
    Case("3.2", "with an empty port", "200", _hosts("Host: a:")),
    Case("3.2", "IPv6", "200", _hosts("Host: [::1]:8501")),
    Case("3.2", "IPv6 that is cut", "400 close", _hosts("Host: [::1")),
    Case("3.2", "escaped", "200", _hosts("Host: a%20b")),
    Case("3.2", "with an underscore", "200", _hosts("Host: my_service.ns.svc")),
)

FIELDS = (
    Case("5", "a value with blanks around it", "200", get(DIGITS, "X:  \t y \t")),
    Case("5", "an empty value", "200", get(DIGITS, "X:")),
    Case("5", "a value beyond ASCII", "200", get(DIGITS, "X: \xe4")),
    Case("5.1", "a blank before the colon", "400 close", get(DIGITS, "X : y")),
    Case("5.1", "a tab before the colon", "400 close", get(DIGITS, "X\t: y")),
    Case("5.1", "an empty name", "400 close", get(DIGITS, ": y")),
    Case("5.1", "no colon", "400 close", get(DIGITS, "XY")),
    Case("5.1", "a blank in the name", "400 close", get(DIGITS, "X Y: z")),
    Case("5.1", "a name beyond ASCII", "400 close", get(DIGITS, "\xe4: z")),
    Case("5.2", "a folded line", "400 close", get(DIGITS, "X: y", " z")),
    Case("5.2", "a line folded by a tab", "400 close", get(DIGITS, "X: y", "\tz")),
    Case("RFC 9110 5.5", "CR in a value", "400 close", get(DIGITS, "X: y\rz")),
    Case("RFC 9110 5.5", "LF in a value", "400 close", get(DIGITS, "X: y\nz")),
    Case("RFC 9110 5.5", "a zero byte in a value", "400 close", get(DIGITS, "X: y\0z")),
    Case("RFC 9110 5.5", "DEL in a value", "400 close", get(DIGITS, "X: y\x7fz")),
    Case("RFC 6585 5", "a field of 60 KB", "200", get(DIGITS, "X: " + "y" * 60 * KB)),
    Case("RFC 6585 5", "a field of 70 KB", "431 close", get(DIGITS, "X: " + "y" * 70 * KB)),
    Case("RFC 6585 5", "a field of 1 MB", "431 close", get(DIGITS, "X: " + "y" * KB * KB)),
    Case("RFC 6585 5", "a name of 70 KB", "431 close", get(DIGITS, "y" * 70 * KB + ": z")),
    Case("RFC 6585 5", "20,000 fields", "431 close", get(DIGITS, *["a: b"] * 20_000)),
    Case("RFC 6585 5", "8,000 fields", "431 close", get(DIGITS, *["a: b"] * 8000)),
    Case("RFC 6585 5", "1,000 fields", "200", get(DIGITS, *["a: b"] * 1000)),
)

HEADS = (*REQUEST_LINE, *TARGET, *HOST, *FIELDS)
