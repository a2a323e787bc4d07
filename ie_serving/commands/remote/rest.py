"""Sends one HTTP/1.1 request at a time, and explains failures.

Each request has its own connection: a person sends few, and an idle connection would make a
stopping server wait.
"""

import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from ie_serving.commands.remote.failures import CommandMisused, ServerRefused, ServerSilent
from ie_serving.commands.remote.server_address import KEY, PASSWORD, ServerAddress
from ie_serving.core.values.errors import WHOLE

MOST_BYTES: Final = 4 << 30
"""Most bytes of a reply that are read, 4 GB: more than any server of this API sends."""
PIECE: Final = 256 * 1024
"""Bytes that are read at a time, so that progress can be shown."""

GRPC_HERE: Final = b"this port speaks gRPC"
"""Text that this server's gRPC port answers to HTTP/1.1."""
WANTS_TLS: Final = b"use https://"
"""Text of this server's 400 for a plain request to a port with TLS."""
NO_SUCH_ROUTE: Final = "Malformed request"
"""TensorFlow Serving's text for a route that it does not have."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]{200,}")
OnBytes = Callable[[int, int | None], None]
"""Called with the bytes read so far and in all; None while the latter is not known."""


class RestReply(NamedTuple):
    """A server's reply.

    Attributes:
        status: HTTP status below 400.
        form: media type.
        body: all of it.
        error: whole text of an error of this server; empty if `body` has all of it.
    """

    status: int
    form: str
    body: bytes
    error: str = ""


class RestPort:
    """The REST port of a server."""

    def __init__(self, address: ServerAddress) -> None:
        if address.is_grpc:
            raise CommandMisused(
                f"this is asked over REST, and --url is {address.url}: give the REST port"
            )
        self.address = address

    def json(self, path: str) -> Any:  # noqa: ANN401  any JSON
        """Give the JSON document at `path`. Raises: CommandFailure."""
        return self._parsed(path, self.ask("GET", path))

    def post(self, path: str, document: object) -> Any:  # noqa: ANN401  any JSON
        """Send JSON and give the JSON of the reply. Raises: CommandFailure."""
        return self._parsed(path, self.ask("POST", path, json.dumps(document).encode()))

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        read: OnBytes = lambda done, total: None,
    ) -> RestReply:
        """Ask once.

        Args:
            method: HTTP method, such as `GET`.
            path: and query.
            body: bytes to send, or pieces of them with their length in `headers`.
            headers: added to those of the address.
            read: reports progress of the reply.

        Raises:
            ServerRefused: the server answers with an error.
            ServerSilent: there is no reply.
        """
        form = {"Content-Type": "application/json"} if body is not None else {}
        connection = self._connection()
        try:
            connection.request(
                method, path, body, {**form, **(headers or {}), **self.address.headers}
            )
            with connection.getresponse() as response:
                reply = RestReply(
                    response.status,
                    response.headers.get_content_type(),
                    _read_body(response, read),
                    unquote(response.headers.get(WHOLE, "")),
                )
        except (OSError, http.client.HTTPException) as error:
            raise ServerSilent(_unreachable(self.address, error)) from error
        finally:
            connection.close()
        if reply.status == 400 and GRPC_HERE in reply.body:
            raise ServerSilent(f"{self.address.url} is the gRPC port: name the REST port by --url")
        if reply.status >= 400:
            raise ServerRefused(
                _refused(self.address, method, path, reply),
                reply.status,
                lacks_route=NO_SUCH_ROUTE in _error_text(reply),
                wants_tls=reply.status == 400 and WANTS_TLS in reply.body,
            )
        return reply

    def _parsed(self, path: str, reply: RestReply) -> Any:  # noqa: ANN401  any JSON
        try:
            return json.loads(reply.body)
        except ValueError:
            raise ServerSilent(
                f"{self.address.url}{path} answers with {reply.form} instead of JSON: give the REST"
                " port of a server of TensorFlow Serving's API"
            ) from None

    def _connection(self) -> http.client.HTTPConnection:
        address = self.address
        if address.scheme == "unix":
            return _UnixConnection(address.host, address.timeout_s)
        if address.secure:
            return http.client.HTTPSConnection(
                address.host, address.port, timeout=address.timeout_s, context=_context(address)
            )
        return http.client.HTTPConnection(address.host, address.port, timeout=address.timeout_s)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket of the file system."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _context(address: ServerAddress) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=address.ca or None)
        if address.certificate:
            context.load_cert_chain(address.certificate, address.private_key)
    except (OSError, ValueError) as error:
        files = " ".join(filter(None, (address.ca, address.certificate, address.private_key)))
        raise CommandMisused(f"certificates cannot be used ({files}): {error}") from None
    return context


def _read_body(response: http.client.HTTPResponse, read: OnBytes) -> bytes:
    length = response.length
    found = bytearray()
    while piece := response.read(PIECE):
        found += piece
        read(len(found), length)
        if len(found) > MOST_BYTES:
            raise OSError(f"the answer is too large; expected at most {MOST_BYTES} bytes")
    return bytes(found)


def _unreachable(address: ServerAddress, error: Exception) -> str:
    """Explain why there is no reply, and what to check."""
    where = address.url
    if isinstance(error, ConnectionRefusedError | FileNotFoundError):
        if pid := _loading(where):
            return (
                f"the server at {where} (process {pid}) loads its models, and its ports open after"
                " that: wait (status --wait), or start it with --open_ports_early true"
            )
        return (
            f"no server listens at {where}: start the server, or name its REST port by --url or"
            " IE_SERVING_URL"
        )
    if isinstance(error, socket.gaierror):
        return f"{address.host} is no host that can be found ({error.strerror}): correct --url"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {where} is not trusted ({error.verify_message}): name its"
            " authority by --ca, and the host as the certificate does"
        )
    if isinstance(error, ssl.SSLError):
        return _tls(address, error)
    if isinstance(error, TimeoutError):
        return (
            f"{where} did not answer within {address.timeout_s:g} s: it is busy, or no server of"
            " this API; raise --timeout_seconds"
        )
    if isinstance(error, http.client.HTTPException | ConnectionError):
        # With TLS in use, a server closes the connection if the client has no certificate.
        other = "a client certificate (--cert and --key)" if address.secure else "TLS (https://)"
        return (
            f"{where} gives no HTTP answer ({_short(error)}): it wants {other}, or is the gRPC"
            " port; name the REST port by --url"
        )
    return f"{where} cannot be asked: {_short(error)}"


def _loading(url: str) -> int:
    """Give the process of a server whose ports are bound and not open yet; 0 if none is known."""
    from ie_serving.core.runtime.run_files import running

    # The environment tells where servers of this user leave their files, in every command alike.
    return next((each.pid for each in running(os.environ) if each.rest == url), 0)


def _tls(address: ServerAddress, error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    if "ALERT" in reason or "CERTIFICATE_REQUIRED" in reason:
        return (
            f"{address.url} refuses the TLS of this client ({reason}): it may want a certificate,"
            " --cert and --key"
        )
    return (
        f"{address.url} does not speak TLS as expected ({reason}): use http:// if the port has none"
    )


def _short(error: Exception) -> str:
    # The HTTP client quotes what it took for a status line, which may be any bytes.
    return ascii(str(error) or type(error).__name__)[1:-1][:100]


def _refused(address: ServerAddress, method: str, path: str, reply: RestReply) -> str:
    text = _error_text(reply)
    if reply.status == 401:
        return (
            f"{address.url} does not know who asks (401: {text}): give a key by {KEY} or"
            f" --api_key_file, or --user with {PASSWORD}"
        )
    if reply.status == 403:
        return f"{address.url} does not allow it (403): {text}"
    if reply.status in (404, 405, 501) and reply.form != "application/json":
        return (
            f"{address.url} has no {method} {path} ({reply.status}): it is another kind of server,"
            " or an older version of this one"
        )
    return f"{address.url} answers {reply.status}: {text}"


def _shortened(text: str) -> str:
    """Cut base64, in which TensorFlow Serving's errors repeat what was sent."""
    return _BASE64.sub(lambda found: f"{found[0][:40]}...", text)


def _error_text(reply: RestReply) -> str:
    if reply.error:
        return _shortened(reply.error)
    text = reply.body[:4096].decode("utf-8", "replace")
    try:
        return _shortened(str(json.loads(reply.body)["error"]))
    except (ValueError, LookupError, TypeError):
        return " ".join(text.split())[:300] or "without a text"
