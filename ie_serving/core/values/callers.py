"""The caller of a request, for models that ask for it (`Signature.told`); others need none."""

from collections.abc import Iterable, Mapping
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
    """Whether requests over gRPC refer to their calls, which models ask for or traffic is split by.

    Otherwise no request does: it would keep the transport's data of the call alive, 80 MB more in
    hostile traffic.

    Attributes:
        always: models may ask for their callers.
        told: whether requests do now.
    """

    always: bool = False
    told: bool = field(init=False)

    def __post_init__(self) -> None:
        self.told = self.always

    def note(self, sticky: Iterable[str]) -> None:
        """Take the keys of metadata by which the traffic of models is split; empty for none."""
        self.told = self.always or any(sticky)


CALLER: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
"""Caller of the next inference that starts in this context; layers in between do not pass it."""


def taken() -> Caller:
    """Return the caller of the starting inference, once: the next inference sets its own."""
    caller = CALLER.get()
    if caller is not NOBODY:
        CALLER.set(NOBODY)
    return caller
