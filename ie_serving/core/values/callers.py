"""The caller of a request, for models that ask for it (`Signature.told`); others need none."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """Facts about a call that its protocol knows.

    Attributes:
        headers: by name, in lower case; metadata over gRPC.
        remaining_s: seconds until the caller's deadline; None if not known.
    """

    # Excluded from `repr`: keys and passwords are among them.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    remaining_s: float | None = None

    def deadline(self, since: float) -> float | None:
        """Return the caller's deadline as Unix time; `since` is when `remaining_s` was measured."""
        return None if self.remaining_s is None else since + self.remaining_s


NOBODY = Caller()


@dataclass(slots=True)
class ToldCallers:
    """Whether requests over gRPC refer to their calls, for a model that asks for its caller.

    Otherwise no request does: it would keep the transport's data of the call alive, 80 MB more in
    hostile traffic.
    """

    told: bool = False


CALLER: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
"""Caller of the next inference that starts in this context; layers in between do not pass it."""


def taken() -> Caller:
    """Return the caller of the starting inference, once: the next inference sets its own."""
    caller = CALLER.get()
    if caller is not NOBODY:
        CALLER.set(NOBODY)
    return caller
