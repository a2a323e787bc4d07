"""Errors that the client raises, with the same canonical codes over REST as over gRPC."""

from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.codes import Code

_OF_HTTP: Final[Mapping[int, Code]] = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.ABORTED,
    413: Code.RESOURCE_EXHAUSTED,
    429: Code.RESOURCE_EXHAUSTED,
    501: Code.UNIMPLEMENTED,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
}
_TLS: Final = ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed", "WRONG_VERSION_NUMBER")


class ClientError(Exception):
    """A call failed.

    Attributes:
        code: canonical code, such as `Code.NOT_FOUND`; `Code.DEADLINE_EXCEEDED` without a reply
            within `timeout_s`.
        text: the server's own text, or what happened to the connection.
    """

    def __init__(self, code: Code, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(f"{code.name}: {text}")


class Unavailable(ClientError):
    """No server listens, or it cannot serve at the moment: the call was tried for `retry_s`.

    Attributes:
        retry_after_s: seconds that the server asks to wait; None if it does not say.
    """

    def __init__(self, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(Code.UNAVAILABLE, text)
        self.retry_after_s = retry_after_s


def of_http(status: int, text: str, retry_after: str) -> ClientError:
    """Make the error of an HTTP status, with the header `Retry-After`."""
    code = _OF_HTTP.get(status, Code.INVALID_ARGUMENT if status < 500 else Code.INTERNAL)
    if code is not Code.UNAVAILABLE:
        return ClientError(code, text)
    is_seconds = retry_after.isascii() and retry_after.isdigit()
    return Unavailable(text, float(retry_after) if is_seconds else None)


def of_connection(text: str) -> ClientError:
    """Make the error of a connection that failed; a wrong certificate is not asked again."""
    if any(each in text for each in _TLS):
        return ClientError(Code.UNAVAILABLE, f"TLS: {text}")
    return Unavailable(text)


def wrong(text: str) -> ClientError:
    """Make the error of a request or a setting that cannot be sent."""
    return ClientError(Code.INVALID_ARGUMENT, text)


def unreadable(text: object) -> ClientError:
    """Make the error of a reply that does not follow the protocol."""
    return ClientError(Code.INTERNAL, f"the answer cannot be read: {text}")
