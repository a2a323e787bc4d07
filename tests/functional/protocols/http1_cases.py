"""Bytes of HTTP/1.1 and what they come to. Sections are RFC 9112's where no other RFC is named."""

import gzip
import json

from tests.functional.protocols.http1_client import Case, chunked, get, post

BODY = json.dumps({"instances": [[0.0] * 64]}).encode()
SIZE = f"{len(BODY):x}".encode()
CHUNKS = b"%b\r\n%b\r\n0\r\n\r\n" % (SIZE, BODY)
KB = 1024


def _raw(text: str) -> bytes:
    return text.encode("latin-1")


def _lengths(*lines: str) -> bytes:
    """A prediction with these lines in place of its length."""
    first = ("POST /v1/models/digits:predict HTTP/1.1", "Host: localhost")
    return "\r\n".join((*first, *lines, "\r\n")).encode("latin-1") + BODY


def _of(coding: str) -> bytes:
    """A body in chunks, with this Transfer-Encoding."""
    return _lengths(f"Transfer-Encoding: {coding}")[: -len(BODY)] + CHUNKS


REQUEST_LINE = (
    Case("3", "GET", "200", get()),
    Case(
        "3",
        "two blanks behind the method",
        "200",
        _raw("GET  /v1/models/digits HTTP/1.1\r\nHost: x\r\n\r\n"),
    ),
    Case(
        "3",
        "two blanks behind the target",
        "200",
        _raw("GET /v1/models/digits  HTTP/1.1\r\nHost: x\r\n\r\n"),
    ),
    Case(
        "3",
        "a tab for a blank",
        "501 close",
        _raw("GET\t/v1/models/digits HTTP/1.1\r\nHost: x\r\n\r\n"),
    ),
    Case(
        "3",
        "a blank before the method",
        "501 close",
        _raw(" GET /v1/models/digits HTTP/1.1\r\nHost: x\r\n\r\n"),
    ),
    Case(
        "3",
        "a blank behind the version",
        "400 close",
        _raw("GET /v1/models/digits HTTP/1.1 \r\nHost: x\r\n\r\n"),
    ),
    Case("3", "no target", "400 close", _raw("GET HTTP/1.1\r\nHost: x\r\n\r\n")),
    Case("3", "no version", "505 close", _raw("GET /v1/models/digits\r\nHost: x\r\n\r\n")),
    Case("2.2", "an empty line before it", "200", b"\r\n" + get()),
    Case("2.2", "two empty lines before it", "200", b"\r\n\r\n" + get()),
    Case(
        "2.2",
        "a line that ends with LF alone",
        "400 close",
        _raw("GET /v1/models/digits HTTP/1.1\nHost: x\r\n\r\n"),
    ),
    Case(
        "2.2",
        "a line that ends with CR alone",
        "400 close",
        _raw("GET /v1/models/digits HTTP/1.1\rHost: x\r\n\r\n"),
    ),
    Case(
        "2.2",
        "a blank before the first header",
        "400 close",
        _raw("GET /v1/models/digits HTTP/1.1\r\n Host: x\r\n\r\n"),
    ),
    Case("2.2", "what is no HTTP", "501 close", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"),
    Case(
        "3.1",
        "a method in lower case",
        "501 close",
        _raw("get /v1/models/digits HTTP/1.1\r\nHost: x\r\n\r\n"),
    ),
    Case(
        "3.1",
        "a method that nobody knows",
        "501 close",
        _raw("FROB /v1/models/digits HTTP/1.1\r\nHost: x\r\n\r\n"),
    ),
    Case(
        "3.1",
        "a method with a bracket",
        "501 close",
        _raw("GE(T /v1/models/digits HTTP/1.1\r\nHost: x\r\n\r\n"),
    ),
    Case("2.3", "HTTP/1.0", "200 close", get(version="1.0")),
    Case("2.3", "HTTP/1.2", "200", get(version="1.2")),
    Case("2.3", "HTTP/1.9", "200", get(version="1.9")),
    Case("2.3", "HTTP/2.0", "505 close", get(version="2.0")),
    Case("2.3", "HTTP/0.9", "505 close", get(version="0.9")),
    Case("2.3", "HTTP/1", "400 close", get(version="1")),
    Case("2.3", "HTTP/1.10", "400 close", get(version="1.10")),
    Case("2.3", "HTTP/01.1", "400 close", get(version="01.1")),
    Case("2.3", "http/1.1", "400 close", _raw("GET /v1/models/digits http/1.1\r\nHost: x\r\n\r\n")),
    Case(
        "2.3", "HTTPS/1.1", "400 close", _raw("GET /v1/models/digits HTTPS/1.1\r\nHost: x\r\n\r\n")
    ),
)

TARGET = (
    Case("3.2.1", "with a query", "404", get("/v1/models/digits?x=1")),
    Case("3.2.1", "escaped", "200", get("/v1/models/%64igits")),
    Case("3.2.1", "with a fragment", "200", get("/v1/models/digits#x")),
    Case("3.2.1", "a path that is not there", "404", get("/nowhere")),
    Case("3.2.1", "a path with two slashes", "404", get("//v1/models/digits")),
    Case("3.2.1", "bytes beyond ASCII", "400 close", get("/v1/models/d\xefgits")),
    Case("3.2.1", "a zero byte", "400 close", get("/v1/models/d\0gits")),
    Case("3.2.1", "a target without a slash", "400 close", get("v1/models/digits")),
    Case("3.2.2", "a whole URL", "200", get("http://localhost/v1/models/digits")),
    Case("3.2.2", "a whole URL with a port", "200", get("http://localhost:80/v1/models/digits")),
    Case("3.2.2", "a URL of the host alone", "404", get("http://localhost")),
    Case("3.2.2", "a scheme alone", "400 close", get("http://")),
    Case(
        "3.2.3",
        "CONNECT",
        "501 close",
        _raw("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n"),
    ),
    Case("3.2.4", "OPTIONS *", "404", _raw("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")),
    Case("3", "a target of 60 KB", "404", get("/v1/models/" + "x" * 60 * KB)),
    Case("RFC 9110 15.5.15", "a target of 70 KB", "414 close", get("/v1/models/" + "x" * 70 * KB)),
    Case("RFC 9110 15.5.15", "a target of 1 MB", "414 close", get("/v1/models/" + "x" * KB * KB)),
)


def _hosts(*lines: str, version: str = "1.1") -> bytes:
    return _raw("\r\n".join((f"GET /v1/models/digits HTTP/{version}", *lines, "\r\n")))


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
    Case("5", "a value with blanks around it", "200", get("/v1/models/digits", "X:  \t y \t")),
    Case("5", "an empty value", "200", get("/v1/models/digits", "X:")),
    Case("5", "a value beyond ASCII", "200", get("/v1/models/digits", "X: \xe4")),
    Case("5.1", "a blank before the colon", "400 close", get("/v1/models/digits", "X : y")),
    Case("5.1", "a tab before the colon", "400 close", get("/v1/models/digits", "X\t: y")),
    Case("5.1", "an empty name", "400 close", get("/v1/models/digits", ": y")),
    Case("5.1", "no colon", "400 close", get("/v1/models/digits", "XY")),
    Case("5.1", "a blank in the name", "400 close", get("/v1/models/digits", "X Y: z")),
    Case("5.1", "a name beyond ASCII", "400 close", get("/v1/models/digits", "\xe4: z")),
    Case("5.2", "a folded line", "400 close", get("/v1/models/digits", "X: y", " z")),
    Case("5.2", "a line folded by a tab", "400 close", get("/v1/models/digits", "X: y", "\tz")),
    Case("RFC 9110 5.5", "CR in a value", "400 close", get("/v1/models/digits", "X: y\rz")),
    Case("RFC 9110 5.5", "LF in a value", "400 close", get("/v1/models/digits", "X: y\nz")),
    Case(
        "RFC 9110 5.5", "a zero byte in a value", "400 close", get("/v1/models/digits", "X: y\0z")
    ),
    Case("RFC 9110 5.5", "DEL in a value", "400 close", get("/v1/models/digits", "X: y\x7fz")),
    Case("RFC 6585 5", "a field of 60 KB", "200", get("/v1/models/digits", "X: " + "y" * 60 * KB)),
    Case(
        "RFC 6585 5",
        "a field of 70 KB",
        "431 close",
        get("/v1/models/digits", "X: " + "y" * 70 * KB),
    ),
    Case(
        "RFC 6585 5",
        "a field of 1 MB",
        "431 close",
        get("/v1/models/digits", "X: " + "y" * KB * KB),
    ),
    Case(
        "RFC 6585 5",
        "a name of 70 KB",
        "431 close",
        get("/v1/models/digits", "y" * 70 * KB + ": z"),
    ),
    Case("RFC 6585 5", "20,000 fields", "431 close", get("/v1/models/digits", *["a: b"] * 20_000)),
    Case("RFC 6585 5", "8,000 fields", "431 close", get("/v1/models/digits", *["a: b"] * 8000)),
    Case("RFC 6585 5", "1,000 fields", "200", get("/v1/models/digits", *["a: b"] * 1000)),
)

LENGTH = (
    Case("6.2", "a body", "200", post(BODY)),
    Case("6.2", "an empty body", "400", post(b"")),
    Case("6.2", "no length and no body", "400", _lengths()[: -len(BODY)]),
    Case(
        "6.3",
        "two lengths that differ",
        "400 close",
        _lengths(f"Content-Length: {len(BODY)}", "Content-Length: 3"),
    ),
    Case(
        "6.3",
        "a length twice in one line",
        "400 close",
        _lengths(f"Content-Length: {len(BODY)}, {len(BODY)}"),
    ),
    Case("6.3", "a length below zero", "400 close", _lengths("Content-Length: -1")),
    Case("6.3", "a length with a plus", "400 close", _lengths(f"Content-Length: +{len(BODY)}")),
    Case("6.3", "a length in hexadecimal", "400 close", _lengths("Content-Length: 0x10")),
    Case("6.3", "a length with a blank", "400 close", _lengths("Content-Length: 1 0")),
    Case("6.3", "an empty length", "400 close", _lengths("Content-Length:")),
    Case(
        "6.3",
        "a length beyond 64 bits",
        "400 close",
        _lengths("Content-Length: 99999999999999999999"),
    ),
    Case("6.3", "a length with zeros before it", "200", _lengths(f"Content-Length: 00{len(BODY)}")),
    Case("6.3", "a GET with a body", "200", get("/v1/models/digits", "Content-Length: 3") + b"abc"),
    Case("6.1", "a length and chunks", "400 close", chunked(CHUNKS, "Content-Length: 5")),
    Case(
        "6.1", "chunks in HTTP/1.0", "400 close", chunked(CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0")
    ),
    Case("6.1", "chunked, in capitals", "200", _of("CHUNKED")),
    Case("6.1", "gzip, chunked", "501 close", _of("gzip, chunked")),
    Case("6.1", "identity, chunked", "501 close", _of("identity, chunked")),
    Case("6.1", "identity", "400 close", _of("identity")),
    Case("6.1", "chunked, gzip", "400 close", _of("chunked, gzip")),
    Case("6.1", "chunked twice", "400 close", _of("chunked, chunked")),
    Case("6.1", "chunked in two lines", "400 close", _of("chunked\r\nTransfer-Encoding: chunked")),
    Case("6.1", "a coding that nobody knows", "400 close", _of("xchunked")),
    Case("6.1", "chunked with a parameter", "400 close", _of("chunked;x=y")),
    Case("6.1", "an empty coding", "400 close", _of("")),
    Case("6.1", "chunked behind a control byte", "400 close", _of("\x0bchunked")),
)

CHUNKED = (
    Case("7.1", "chunks", "200", chunked(CHUNKS)),
    Case(
        "7.1",
        "a chunk for each byte",
        "200",
        chunked(b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
    ),
    Case("7.1", "a size in capitals", "200", chunked(CHUNKS.replace(SIZE, SIZE.upper(), 1))),
    Case("7.1", "a size with zeros before it", "200", chunked(b"000" + CHUNKS)),
    Case("7.1", "several zeros for the last chunk", "200", chunked(CHUNKS[:-5] + b"000\r\n\r\n")),
    Case("7.1", "a size that is none", "400 close", chunked(b"xyz\r\n" + BODY)),
    Case("7.1", "an empty size", "400 close", chunked(b"\r\n" + BODY)),
    Case("7.1", "a size below zero", "400 close", chunked(b"-1\r\n" + BODY)),
    Case("7.1", "a size with 0x", "400 close", chunked(b"0x" + CHUNKS)),
    Case("7.1", "a size behind a blank", "400 close", chunked(b" " + CHUNKS)),
    Case(
        "7.1",
        "a blank behind the size",
        "400 close",
        chunked(SIZE + b" \r\n" + BODY + b"\r\n0\r\n\r\n"),
    ),
    Case("7.1", "a size beyond 64 bits", "400 close", chunked(b"fffffffffffffffff\r\n" + BODY)),
    Case(
        "7.1",
        "LF alone behind the size",
        "400 close",
        chunked(SIZE + b"\n" + BODY + b"\r\n0\r\n\r\n"),
    ),
    Case(
        "7.1",
        "CR alone behind the size",
        "400 close",
        chunked(SIZE + b"\r" + BODY + b"\r\n0\r\n\r\n"),
    ),
    Case(
        "7.1", "no CRLF behind the data", "400 close", chunked(SIZE + b"\r\n" + BODY + b"0\r\n\r\n")
    ),
    Case(
        "7.1",
        "more data than the size",
        "400 close",
        chunked(SIZE + b"\r\n" + BODY + b"x\r\n0\r\n\r\n"),
    ),
    Case("7.1", "LF alone at the end", "400 close", chunked(CHUNKS[:-2] + b"\n")),
    Case("7.1.1", "an extension", "200", chunked(SIZE + b";a=b\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Case(
        "7.1.1",
        "an extension in quotes",
        "200",
        chunked(SIZE + b';a="b;c"\r\n' + BODY + b"\r\n0\r\n\r\n"),
    ),
    Case(
        "7.1.1",
        "an extension of the last chunk",
        "200",
        chunked(SIZE + b"\r\n" + BODY + b"\r\n0;a=b\r\n\r\n"),
    ),
    Case(
        "7.1.1",
        "LF in an extension",
        "400 close",
        chunked(SIZE + b";a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    ),
    Case(
        "7.1.1",
        "extensions of 100 KB",
        "431 close",
        chunked(SIZE + b";" + b"a" * 100 * KB + b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    ),
    Case(
        "7.1.1",
        "extensions of 100 KB in all",
        "431 close",
        chunked(
            b"".join(b"1;%b\r\n%c\r\n" % (b"a" * 2 * KB, byte) for byte in BODY) + b"0\r\n\r\n"
        ),
    ),
    Case("7.1.2", "trailers", "200", chunked(CHUNKS[:-2] + b"X-Checksum: 1\r\n\r\n")),
    Case(
        "7.1.2",
        "trailers that look like a head's",
        "400 close",
        chunked(CHUNKS[:-2] + b"Content-Length: 9\r\nHost: b\r\n\r\n"),
    ),
    Case("7.1.2", "a faulty trailer", "400 close", chunked(CHUNKS[:-2] + b"X Y: 1\r\n\r\n")),
    Case(
        "7.1.2",
        "a trailer of 100 KB",
        "431 close",
        chunked(CHUNKS[:-2] + b"X: " + b"y" * 100 * KB + b"\r\n\r\n"),
    ),
    Case(
        "7.1.2",
        "20,000 trailers",
        "431 close",
        chunked(CHUNKS[:-2] + b"a: b\r\n" * 20_000 + b"\r\n"),
    ),
)

CONNECTION = (
    Case("9.3", "two requests in a row", "200 200", get() * 2),
    Case("9.3", "a body, then a request", "200 200", post(BODY) + get()),
    Case("9.3", "chunks, then a request", "200 200", chunked(CHUNKS) + get()),
    Case("9.3", "a request and an empty line", "200 200", get() + b"\r\n" + get()),
    Case("9.3", "a good request, then nonsense", "200 501 close", get() + b"nonsense \r\n\r\n"),
    Case("9.3", "a hundred requests in a row", " ".join(["200"] * 100), get() * 100),
    Case("9.6", "Connection: close", "200 close", get("/v1/models/digits", "Connection: close")),
    Case("9.6", "Connection: Close", "200 close", get("/v1/models/digits", "Connection: Close")),
    Case(
        "9.6", "close among others", "200 close", get("/v1/models/digits", "Connection: x, close")
    ),
    Case(
        "9.6",
        "close in a second line",
        "200 close",
        get("/v1/models/digits", "Connection: x", "Connection: close"),
    ),
    Case(
        "9.3",
        "a name that begins with close",
        "200",
        get("/v1/models/digits", "Connection: closer"),
    ),
    Case(
        "9.3",
        "keep-alive in HTTP/1.0",
        "200",
        get("/v1/models/digits", "Connection: keep-alive", version="1.0"),
    ),
    Case(
        "9.3",
        "Keep-Alive in HTTP/1.0",
        "200",
        get("/v1/models/digits", "Connection: Keep-Alive", version="1.0"),
    ),
    Case(
        "RFC 9110 7.8",
        "an upgrade is offered",
        "200",
        get("/v1/models/digits", "Connection: Upgrade", "Upgrade: h2c"),
    ),
    Case(
        "RFC 9110 7.8",
        "an upgrade with a body",
        "200",
        post(BODY, "Connection: Upgrade", "Upgrade: websocket"),
    ),
    Case(
        "RFC 9110 7.8",
        "an upgrade in HTTP/1.0",
        "200 close",
        get("/v1/models/digits", "Connection: Upgrade", "Upgrade: h2c", version="1.0"),
    ),
    Case(
        "RFC 9110 10.1.1",
        "Expect: 100-continue with its body",
        "200",
        post(BODY, "Expect: 100-continue"),
    ),
    Case("RFC 9110 10.1.1", "Expect in capitals", "200", post(BODY, "Expect: 100-CONTINUE")),
    Case("RFC 9110 10.1.1", "another Expect", "200", post(BODY, "Expect: x")),
    Case(
        "RFC 9110 10.1.1",
        "Expect without a body",
        "200",
        get("/v1/models/digits", "Expect: 100-continue"),
    ),
)

METHODS = (
    Case("RFC 9110 9.3.2", "HEAD", "200", get().replace(b"GET", b"HEAD")),
    Case("RFC 9110 9.3.2", "HEAD of nothing", "404", get("/nowhere").replace(b"GET", b"HEAD")),
    Case("RFC 9110 15.5.6", "DELETE", "405", get().replace(b"GET", b"DELETE")),
    Case("RFC 9110 15.5.6", "PUT with a body", "405", post(BODY).replace(b"POST", b"PUT")),
    Case("RFC 9110 15.5.6", "PATCH", "405", get().replace(b"GET", b"PATCH")),
    Case("RFC 9110 15.5.6", "TRACE", "405", get().replace(b"GET", b"TRACE")),
    Case("RFC 9110 15.5.16", "Content-Encoding: br", "415", post(BODY, "Content-Encoding: br")),
    Case(
        "RFC 9110 15.5.16",
        "gzip twice",
        "415",
        post(gzip.compress(BODY), "Content-Encoding: gzip, gzip"),
    ),
    Case(
        "RFC 9110 8.4",
        "Content-Encoding: gzip",
        "200",
        post(gzip.compress(BODY), "Content-Encoding: gzip"),
    ),
    Case(
        "RFC 9110 8.4",
        "Content-Encoding: GZIP",
        "200",
        post(gzip.compress(BODY), "Content-Encoding: GZIP"),
    ),
    Case(
        "RFC 9110 8.4",
        "Content-Encoding: x-gzip",
        "200",
        post(gzip.compress(BODY), "Content-Encoding: x-gzip"),
    ),
    Case(
        "RFC 9110 8.4",
        "Content-Encoding: identity",
        "200",
        post(BODY, "Content-Encoding: identity"),
    ),
    Case("RFC 9110 8.3", "no Content-Type", "200", post(BODY)),
    Case(
        "RFC 9110 12.5.3",
        "Accept-Encoding of nothing",
        "200",
        get("/v1/models/digits", "Accept-Encoding: identity;q=0"),
    ),
)

HTTP1 = (*REQUEST_LINE, *TARGET, *HOST, *FIELDS, *LENGTH, *CHUNKED, *CONNECTION, *METHODS)
