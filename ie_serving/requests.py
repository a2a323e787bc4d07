"""What is asked of a servable, whichever protocol it came by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which servable a request means.

    Attributes:
        name: model name.
        version: exactly this version; None for the default or a label's.
        label: version label; None when there is none. Never set together with `version`.
        signature: signature name; empty for `serving_default`.
    """

    name: str
    version: int | None = None
    label: str | None = None
    signature: str = ""
