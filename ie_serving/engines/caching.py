"""Options of the layer that keeps recent answers."""

from dataclasses import dataclass

from ie_serving.core.settings.declaration import BYTES


@dataclass(frozen=True, kw_only=True)
class Caching:
    """How much one version keeps of its answers."""

    # Off: an answer may depend on more than the inputs, such as a random number or a hook's clock.
    response_cache_bytes: int = BYTES.setting(
        0,
        "bytes of answers that a version keeps, to give the same answer to the same inputs, and of"
        " equal requests at a time computes one; 0 keeps none",
        "104857600",
    )
