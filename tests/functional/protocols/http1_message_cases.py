"""Bodies of HTTP/1.1 requests, requests in a row, methods, and what they come to.

Sections are RFC 9112's where no other RFC is named.
"""

import gzip
import json

from tests.functional.protocols.http1_client import DIGITS, Case, chunked, get, post, raw

BODY = json.dumps({"instances": [[0.0] * 64]}).encode()
SIZE = f"{len(BODY):x}".encode()
KB = 1024


def _one_chunk(size: bytes = SIZE, data: bytes = BODY + b"\r\n", end: bytes = b"0\r\n") -> bytes:
    """The body as a chunk, and the last one; each argument is written as it is."""
    return b"%b\r\n%b%b\r\n" % (size, data, end)


CHUNKS = _one_chunk()


def _lengths(*lines: str) -> bytes:
    """A prediction with these lines in place of its length."""
    first = (f"POST {DIGITS}:predict HTTP/1.1", "Host: localhost")
    return raw("\r\n".join((*first, *lines, "\r\n"))) + BODY


def _of(coding: str) -> bytes:
    """A body in chunks, with this Transfer-Encoding."""
    return _lengths(f"Transfer-Encoding: {coding}")[: -len(BODY)] + CHUNKS


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
    Case("6.3", "a length beyond 64 bits", "400 close", _lengths("Content-Length: " + "9" * 20)),
    Case("6.3", "a length with zeros before it", "200", _lengths(f"Content-Length: 00{len(BODY)}")),
    Case("6.3", "a GET with a body", "200", get(DIGITS, "Content-Length: 3") + b"abc"),
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


def _sized(size: bytes) -> bytes:
    """A prediction whose chunk has this line in place of its size."""
    return chunked(_one_chunk(size))


def _ended(end: bytes) -> bytes:
    """A prediction whose last chunk and trailers are these."""
    return chunked(_one_chunk(end=end))


CHUNKED = (
    Case("7.1", "chunks", "200", chunked(CHUNKS)),
    Case(
        "7.1",
        "a chunk for each byte",
        "200",
        chunked(b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
    ),
    Case(
        "7.1",
        "a size in capitals",
        "200",
        chunked(_one_chunk(b"1AF", BODY.ljust(0x1AF) + b"\r\n")),
    ),
    Case("7.1", "a size with zeros before it", "200", _sized(b"000" + SIZE)),
    Case("7.1", "several zeros for the last chunk", "200", _ended(b"000\r\n")),
    Case("7.1", "a size that is none", "400 close", chunked(b"xyz\r\n" + BODY)),
    Case("7.1", "an empty size", "400 close", chunked(b"\r\n" + BODY)),
    Case("7.1", "a size below zero", "400 close", chunked(b"-1\r\n" + BODY)),
    Case("7.1", "a size with 0x", "400 close", _sized(b"0x" + SIZE)),
    Case("7.1", "a size behind a blank", "400 close", _sized(b" " + SIZE)),
    Case("7.1", "a blank behind the size", "400 close", _sized(SIZE + b" ")),
    Case("7.1", "a size beyond 64 bits", "400 close", chunked(b"fffffffffffffffff\r\n" + BODY)),
    Case(
        "7.1", "LF alone behind the size", "400 close", chunked(CHUNKS.replace(b"\r\n", b"\n", 1))
    ),
    Case(
        "7.1", "CR alone behind the size", "400 close", chunked(CHUNKS.replace(b"\r\n", b"\r", 1))
    ),
    Case("7.1", "no CRLF behind the data", "400 close", chunked(_one_chunk(data=BODY))),
    Case("7.1", "more data than the size", "400 close", chunked(_one_chunk(data=BODY + b"x\r\n"))),
    Case("7.1", "LF alone at the end", "400 close", chunked(CHUNKS[:-2] + b"\n")),
    Case("7.1.1", "an extension", "200", _sized(SIZE + b";a=b")),
    Case("7.1.1", "an extension in quotes", "200", _sized(SIZE + b';a="b;c"')),
    Case("7.1.1", "an extension of the last chunk", "200", _ended(b"0;a=b\r\n")),
    Case("7.1.1", "LF in an extension", "400 close", _sized(SIZE + b";a\nb")),
    Case("7.1.1", "extensions of 100 KB", "431 close", _sized(SIZE + b";" + b"a" * 100 * KB)),
    Case(
        "7.1.1",
        "extensions of 100 KB in all",
        "431 close",
        chunked(
            b"".join(b"1;%b\r\n%c\r\n" % (b"a" * 2 * KB, byte) for byte in BODY) + b"0\r\n\r\n"
        ),
    ),
    Case("7.1.2", "trailers", "200", _ended(b"0\r\nX-Checksum: 1\r\n")),
    Case(
        "7.1.2",
        "trailers that look like a head's",
        "400 close",
        _ended(b"0\r\nContent-Length: 9\r\nHost: b\r\n"),
    ),
    Case("7.1.2", "a faulty trailer", "400 close", _ended(b"0\r\nX Y: 1\r\n")),
    Case(
        "7.1.2", "a trailer of 100 KB", "431 close", _ended(b"0\r\nX: " + b"y" * 100 * KB + b"\r\n")
    ),
    Case("7.1.2", "20,000 trailers", "431 close", _ended(b"0\r\n" + b"a: b\r\n" * 20_000)),
)


def _connection(*options: str, version: str = "1.1") -> bytes:
    """A request with a line `Connection` for each of these."""
    return get(DIGITS, *[f"Connection: {each}" for each in options], version=version)


CONNECTION = (
    Case("9.3", "two requests in a row", "200 200", get() * 2),
    Case("9.3", "a body, then a request", "200 200", post(BODY) + get()),
    Case("9.3", "chunks, then a request", "200 200", chunked(CHUNKS) + get()),
    Case("9.3", "a request and an empty line", "200 200", get() + b"\r\n" + get()),
    Case("9.3", "a good request, then nonsense", "200 501 close", get() + b"nonsense \r\n\r\n"),
    Case("9.3", "a hundred requests in a row", " ".join(["200"] * 100), get() * 100),
    Case("9.6", "Connection: close", "200 close", _connection("close")),
    Case("9.6", "Connection: Close", "200 close", _connection("Close")),
    Case("9.6", "close among others", "200 close", _connection("x, close")),
    Case("9.6", "close in a second line", "200 close", _connection("x", "close")),
    Case("9.3", "a name that begins with close", "200", _connection("closer")),
    Case("9.3", "keep-alive in HTTP/1.0", "200", _connection("keep-alive", version="1.0")),
    Case("9.3", "Keep-Alive in HTTP/1.0", "200", _connection("Keep-Alive", version="1.0")),
    Case(
        "RFC 9110 7.8",
        "an upgrade is offered",
        "200",
        get(DIGITS, "Connection: Upgrade", "Upgrade: h2c"),
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
        get(DIGITS, "Connection: Upgrade", "Upgrade: h2c", version="1.0"),
    ),
    Case(
        "RFC 9110 10.1.1",
        "Expect: 100-continue with its body",
        "200",
        post(BODY, "Expect: 100-continue"),
    ),
    Case("RFC 9110 10.1.1", "Expect in capitals", "200", post(BODY, "Expect: 100-CONTINUE")),
    Case("RFC 9110 10.1.1", "another Expect", "200", post(BODY, "Expect: x")),
    Case("RFC 9110 10.1.1", "Expect without a body", "200", get(DIGITS, "Expect: 100-continue")),
)


def _coded(coding: str, body: bytes = BODY) -> bytes:
    return post(body, f"Content-Encoding: {coding}")


_GZIP = gzip.compress(BODY, mtime=0)

METHODS = (
    Case("RFC 9110 9.3.2", "HEAD", "200", get().replace(b"GET", b"HEAD")),
    Case("RFC 9110 9.3.2", "HEAD of nothing", "404", get("/nowhere").replace(b"GET", b"HEAD")),
    Case("RFC 9110 15.5.6", "DELETE", "405", get().replace(b"GET", b"DELETE")),
    Case("RFC 9110 15.5.6", "PUT with a body", "405", post(BODY).replace(b"POST", b"PUT")),
    Case("RFC 9110 15.5.6", "PATCH", "405", get().replace(b"GET", b"PATCH")),
    Case("RFC 9110 15.5.6", "TRACE", "405", get().replace(b"GET", b"TRACE")),
    Case("RFC 9110 15.5.16", "Content-Encoding: br", "415", _coded("br")),
    Case("RFC 9110 15.5.16", "gzip twice", "415", _coded("gzip, gzip", _GZIP)),
    Case("RFC 9110 8.4", "Content-Encoding: gzip", "200", _coded("gzip", _GZIP)),
    Case("RFC 9110 8.4", "Content-Encoding: GZIP", "200", _coded("GZIP", _GZIP)),
    Case("RFC 9110 8.4", "Content-Encoding: x-gzip", "200", _coded("x-gzip", _GZIP)),
    Case("RFC 9110 8.4", "Content-Encoding: identity", "200", _coded("identity")),
    Case("RFC 9110 8.3", "no Content-Type", "200", post(BODY)),
    Case(
        "RFC 9110 12.5.3",
        "Accept-Encoding of nothing",
        "200",
        get(DIGITS, "Accept-Encoding: identity;q=0"),
    ),
)

MESSAGES = (*LENGTH, *CHUNKED, *CONNECTION, *METHODS)
