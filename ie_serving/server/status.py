"""From an error to a canonical status code, and from that to an HTTP code. The only such place.

Source of the codes: `google.rpc.Code`, which gRPC and `tensorflow.error.Code` share; of the HTTP
codes: the table that TensorFlow Serving's REST API documents.
"""

import enum
import logging
import uuid

from ie_serving import errors

log = logging.getLogger(__name__)

LONGEST_TEXT = 1024
"""Longest status message in bytes, as TensorFlow Serving cuts it: proxies refuse longer headers."""
CUT = "...TRUNCATED"


class Code(enum.Enum):
    """A canonical status code.

    Attributes:
        number: on the wire.
        http: HTTP status code that stands for it.
    """

    OK = (0, 200)
    CANCELLED = (1, 499)
    UNKNOWN = (2, 500)
    INVALID_ARGUMENT = (3, 400)
    DEADLINE_EXCEEDED = (4, 504)
    NOT_FOUND = (5, 404)
    ALREADY_EXISTS = (6, 409)
    PERMISSION_DENIED = (7, 403)
    RESOURCE_EXHAUSTED = (8, 429)
    FAILED_PRECONDITION = (9, 400)
    ABORTED = (10, 409)
    OUT_OF_RANGE = (11, 400)
    UNIMPLEMENTED = (12, 501)
    INTERNAL = (13, 500)
    UNAVAILABLE = (14, 503)
    DATA_LOSS = (15, 500)
    UNAUTHENTICATED = (16, 401)

    def __init__(self, number: int, http: int) -> None:
        self.number = number
        self.http = http


CODE_OF: dict[type[BaseException], Code] = {
    errors.InvalidRequest: Code.INVALID_ARGUMENT,
    errors.RequestTooLarge: Code.RESOURCE_EXHAUSTED,
    errors.NotFound: Code.NOT_FOUND,
    errors.PreconditionFailed: Code.FAILED_PRECONDITION,
    errors.NotSupported: Code.UNIMPLEMENTED,
    errors.NotAvailable: Code.UNAVAILABLE,
    errors.QueueFull: Code.RESOURCE_EXHAUSTED,
    errors.DeadlineExceeded: Code.DEADLINE_EXCEEDED,
    errors.LoadFailed: Code.UNKNOWN,
    errors.StorageError: Code.UNAVAILABLE,
    errors.ConfigError: Code.INVALID_ARGUMENT,
    errors.ServingError: Code.INTERNAL,
}


def code_of(error: errors.ServingError) -> Code:
    """Find the code of the nearest class of `error` that has one."""
    return next(CODE_OF[kind] for kind in type(error).__mro__ if kind in CODE_OF)


def http_of(error: Exception, code: Code) -> int:
    """HTTP status of an error that has `code`.

    It is the table's, but 413 for a body that is too large: TensorFlow Serving sets no limit.
    """
    return 413 if isinstance(error, errors.RequestTooLarge) else code.http


def explain(error: Exception) -> tuple[Code, str]:
    """Give the code and the text that a client may see.

    An error that is not ours is a defect: it is logged in full under an id, and the client gets
    the id alone, since its text may hold anything.
    """
    if isinstance(error, errors.ServingError):
        return code_of(error), str(error)
    incident = uuid.uuid4().hex[:12]
    log.error("unexpected error incident=%s", incident, exc_info=error)
    return Code.INTERNAL, f"internal error; the server's log has the cause under {incident}"


def cut(text: str) -> str:
    """Shorten a status message that is too long for a header."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= LONGEST_TEXT:
        return encoded.decode()
    return encoded[: LONGEST_TEXT - len(CUT)].decode("utf-8", "ignore") + CUT
