"""Who asks, for models that are told (`Signature.told`): no other request makes any of this."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """What a protocol tells of one call.

    Attributes:
        headers: by name, in lower case; metadata over gRPC.
        remaining_s: seconds until the caller gives up; None where that is not known.
    """

    # Not in the text of a caller: keys and passwords are among them.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    remaining_s: float | None = None

    def deadline(self, since: float) -> float | None:
        """Give the Unix time at which the caller gives up; `since` is when this was told."""
        return None if self.remaining_s is None else since + self.remaining_s


NOBODY = Caller()

CALLER: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
"""Of the inference that begins next in this context; layers in between know nothing of it."""


def taken() -> Caller:
    """Give the caller of the inference that begins, once: the next one has its own, or none."""
    caller = CALLER.get()
    if caller is not NOBODY:
        CALLER.set(NOBODY)
    return caller
