"""Makes one gRPC call at a time, and explains failures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import grpc

from ie_serving.commands.remote.failures import CommandMisused, ServerRefused, ServerSilent
from ie_serving.commands.remote.server_address import KEY, ServerAddress
from ie_serving.core.values.errors import WHOLE
from ie_serving.wire.protobuf.messages import Proto

PREDICTION: Final = "tensorflow.serving.PredictionService"
MODEL: Final = "tensorflow.serving.ModelService"
OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
]

_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "wrong version number")
_UNTRUSTED: Final = ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed", "Peer name")
_NO_HTTP2: Final = ("http1.x", "HTTP/1", "Broken pipe", "Socket closed", "settings frame", "ALPN")
_NO_CONNECTION: Final = ("failed to connect", "resolution", "errors resolving", "Connection reset")


class GrpcPort:
    """The gRPC port of a server; a context manager, which closes the connection."""

    def __init__(self, address: ServerAddress) -> None:
        if not address.is_grpc:
            raise CommandMisused(
                f"this is asked over gRPC, and --url is {address.url}: give grpc(s)://"
            )
        self._address = address
        host = f"[{address.host}]" if ":" in address.host else address.host
        target = f"{host}:{address.port}"
        if address.secure:
            self._channel = grpc.secure_channel(target, _credentials(address), OPTIONS)
        else:
            self._channel = grpc.insecure_channel(target, OPTIONS)
        self._metadata = [(name.lower(), value) for name, value in address.headers.items()]

    def __enter__(self) -> "GrpcPort":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def call(self, service: str, method: str, request: Proto | bytes, kind: Proto) -> Proto:
        """Call a method; give its reply as a message of `kind`.

        Raises:
            ServerRefused: the server answers with an error.
            ServerSilent: there is no reply.
        """
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        ask: Any = self._channel.unary_unary(f"/{service}/{method}", None, None)
        try:
            reply = ask(payload, timeout=self._address.timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._failure(error) from None
        return kind.FromString(reply)

    def _failure(self, error: Any) -> ServerRefused | ServerSilent:  # noqa: ANN401  it is a Call as well
        more = dict(error.trailing_metadata() or ())
        text = unquote(more.get(WHOLE, "")) or str(error.details() or "without a text")
        code = error.code()
        where = self._address.url
        if code is grpc.StatusCode.UNAVAILABLE and (why := _connection_fault(text)):
            return ServerSilent(f"{where} {why}")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return ServerSilent(
                f"{where} did not answer within {self._address.timeout_s:g} s ({text}): it is busy,"
                " or no gRPC port; raise --timeout_seconds"
            )
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return ServerRefused(
                f"{where} does not know who asks ({text}): give a key by {KEY} or --api_key_file",
                rpc_code=code.name,
            )
        return ServerRefused(f"{where} answers {code.name}: {text}", rpc_code=code.name)


def _credentials(address: ServerAddress) -> grpc.ChannelCredentials:
    try:
        read: Mapping[str, bytes | None] = {
            path: Path(path).read_bytes() if path else None
            for path in (address.ca, address.private_key, address.certificate)
        }
    except OSError as error:
        raise CommandMisused(f"certificates cannot be used: {error}") from None
    return grpc.ssl_channel_credentials(
        read[address.ca], read[address.private_key], read[address.certificate]
    )


def _connection_fault(text: str) -> str:
    """Explain why there is no connection; empty if the server itself answers UNAVAILABLE."""
    if any(each in text for each in _NO_TLS):
        return "does not speak TLS: use grpc:// if the port has none"
    if any(each in text for each in _UNTRUSTED):
        return (
            f"has a certificate that is not trusted ({text[-120:]}): name its authority by --ca,"
            " and the host as the certificate does"
        )
    if "refused" in text or "No such file" in text:
        return "has no server that listens: start it, or name its gRPC port by --url"
    if any(each in text for each in _NO_HTTP2):
        return (
            f"gives no gRPC answer ({text[-80:]}): it is the REST port, or wants TLS (grpcs://);"
            " name the gRPC port by --url"
        )
    if any(each in text for each in _NO_CONNECTION):
        return f"cannot be reached: {text[-200:]}"
    return ""
