"""What a client is told of an error: its HTTP code, and its text. The only such module.

The canonical code of each error is in `core/values/codes.py`. Source of the HTTP codes: the table
that TensorFlow Serving's REST API documents.
"""

import logging
import re
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from ie_serving.core.runtime.threads import let_go
from ie_serving.core.values import errors
from ie_serving.core.values.codes import Code, code_of
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LONGEST_TEXT = 1024
"""Longest status message in bytes, as TensorFlow Serving cuts it: proxies refuse longer headers."""
CUT = "...TRUNCATED"
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

HTTP_OF: Mapping[Code, int] = MappingProxyType(
    {
        Code.OK: 200,
        Code.CANCELLED: 499,
        Code.UNKNOWN: 500,
        Code.INVALID_ARGUMENT: 400,
        Code.DEADLINE_EXCEEDED: 504,
        Code.NOT_FOUND: 404,
        Code.ALREADY_EXISTS: 409,
        Code.PERMISSION_DENIED: 403,
        Code.RESOURCE_EXHAUSTED: 429,
        Code.FAILED_PRECONDITION: 400,
        Code.ABORTED: 409,
        Code.OUT_OF_RANGE: 400,
        Code.UNIMPLEMENTED: 501,
        Code.INTERNAL: 500,
        Code.UNAVAILABLE: 503,
        Code.DATA_LOSS: 500,
        Code.UNAUTHENTICATED: 401,
    }
)

_OF_OTHERS: Mapping[type[Exception], int] = MappingProxyType(
    {errors.RequestTooLarge: 413, errors.UnknownEncoding: 415, errors.SequenceEnding: 412}
)
"""Codes of errors that TensorFlow Serving lacks: it sets no limit, reads any encoding as JSON, and
has no sequences; OpenVINO Model Server says 412 of one that has not ended yet."""


def http_of(error: Exception, code: Code) -> int:
    """HTTP status of an error that has `code`."""
    own = (_OF_OTHERS[kind] for kind in type(error).__mro__ if kind in _OF_OTHERS)
    return next(own, HTTP_OF[code])


class ShownError(NamedTuple):
    """What a client may see of an error.

    Attributes:
        code: canonical code.
        text: text of the status; where TensorFlow Serving has the same error, its text.
        whole: the text with what helps a person.
    """

    code: Code
    text: str
    whole: str


def explain(error: Exception) -> ShownError:
    """Give the code and the text that a client may see.

    An error that is not ours is a defect: it is logged in full under an id, and the client gets
    the id alone, since its text may hold anything.
    """
    if isinstance(error, errors.ServingError):
        let_go(error)
        return ShownError(code_of(error), error.said, str(error))
    incident = uuid.uuid4().hex[:12]
    log.error(Event("unexpected error", incident=incident), exc_info=error)
    text = f"internal error; the server's log has the cause under {incident}"
    return ShownError(Code.INTERNAL, text, text)


def in_header(text: str) -> str:
    """Write a text so that it fits into a header: cut, with percent signs for other characters."""
    # A header's value cannot begin or end with a space.
    return re.sub("^ | $", "%20", quote(cut(text.strip("\n")), safe=_PRINTABLE))


def cut(text: str) -> str:
    """Shorten a status message that is too long for a header."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= LONGEST_TEXT:
        return encoded.decode()
    return encoded[: LONGEST_TEXT - len(CUT)].decode("utf-8", "ignore") + CUT
