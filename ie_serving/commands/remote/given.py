"""A request that a command has read, before it is sent over either interface."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # numpy is imported where arrays are
    import numpy as np

Named = Mapping[str, "np.ndarray[Any, Any]"]
"""Arrays by input; the only input of a signature may be called by the empty name."""


@dataclass(frozen=True)
class Given:
    """A request. Either `body` is one of `:predict`, or it is None and there are `arrays`.

    Attributes:
        body: JSON.
        arrays: by input.
        image: an encoded one, which the body has in base64; over gRPC it is a string, whatever
            dtype the metadata tells of the pixels. With the input that it is for.
    """

    body: bytes | None
    arrays: Named = field(default_factory=dict)
    image: tuple[str, bytes] | None = None
