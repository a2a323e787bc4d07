"""Canonical status codes, and the code of each error of `errors.py`.

Source: `google.rpc.Code`. gRPC's statuses, `tensorflow.error.Code` and the label `status` of the
metrics share these names and numbers. `server/status.py` maps them to HTTP.
"""

import asyncio
import enum
from collections.abc import Mapping
from typing import Final

from ie_serving.core.values import errors

ENDED = (Exception, asyncio.CancelledError)
"""Exceptions that end a request without a reply; caught where requests are counted."""
REASON_OF: Final[Mapping[type[BaseException], str]] = {
    errors.BudgetFull: "memory",
    errors.QueueFull: "queue_full",
    errors.RequestTooLarge: "too_large",
    errors.DeadlineExceeded: "deadline",
}
"""Reasons of refusals that a server with more room, or time, would not have made."""


class Code(enum.IntEnum):
    """A canonical status code; its value is the number on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


CODE_OF: Final[Mapping[type[BaseException], Code]] = {
    errors.InvalidRequest: Code.INVALID_ARGUMENT,
    errors.RequestTooLarge: Code.RESOURCE_EXHAUSTED,  # as gRPC itself refuses long messages
    errors.NotFound: Code.NOT_FOUND,
    errors.AlreadyExists: Code.ALREADY_EXISTS,
    errors.PreconditionFailed: Code.FAILED_PRECONDITION,
    errors.NotSupported: Code.UNIMPLEMENTED,
    errors.NotAvailable: Code.UNAVAILABLE,
    errors.Unauthenticated: Code.UNAUTHENTICATED,
    errors.Forbidden: Code.PERMISSION_DENIED,
    errors.QueueFull: Code.RESOURCE_EXHAUSTED,
    errors.DeadlineExceeded: Code.DEADLINE_EXCEEDED,
    errors.LoadFailed: Code.UNKNOWN,  # as ModelVersionStatus of TensorFlow Serving has it
    errors.DirectoryGone: Code.NOT_FOUND,
    errors.StorageError: Code.UNAVAILABLE,
    errors.ConfigError: Code.INVALID_ARGUMENT,
    errors.ServingError: Code.INTERNAL,
    Exception: Code.INTERNAL,  # any other error: a defect
}

ERROR_OF: Final[Mapping[int, type[errors.ServingError]]] = {
    Code.INVALID_ARGUMENT: errors.InvalidRequest,
    Code.OUT_OF_RANGE: errors.InvalidRequest,  # mostly of a value in the request
    Code.NOT_FOUND: errors.NotFound,
    Code.ALREADY_EXISTS: errors.AlreadyExists,
    Code.PERMISSION_DENIED: errors.Forbidden,
    Code.FAILED_PRECONDITION: errors.PreconditionFailed,
    Code.UNIMPLEMENTED: errors.NotSupported,
    Code.RESOURCE_EXHAUSTED: errors.QueueFull,
    Code.DEADLINE_EXCEEDED: errors.DeadlineExceeded,
    Code.UNAVAILABLE: errors.NotAvailable,
    Code.ABORTED: errors.NotAvailable,
    Code.INTERNAL: errors.ServingError,
}
"""The error for a code that another process, or a kernel, has returned."""


def code_of(error: BaseException) -> Code:
    """Return the code of one of `ENDED`: that of its nearest class with a code.

    For a cancelled task, it is the code that the canceller has passed as message. Without one it is
    CANCELLED: the client has left.
    """
    if isinstance(error, asyncio.CancelledError):
        return next((said for said in error.args if isinstance(said, Code)), Code.CANCELLED)
    # Always found: `Exception` has a code.
    return next(CODE_OF[kind] for kind in type(error).__mro__ if kind in CODE_OF)


def rejected_for(error: BaseException) -> str:
    """Return why a request was rejected; empty for any other failure."""
    return next((REASON_OF[kind] for kind in type(error).__mro__ if kind in REASON_OF), "")
