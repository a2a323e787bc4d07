"""A request that a command has read, independent of REST or gRPC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # numpy is imported where arrays are
    import numpy as np

NamedInputs = Mapping[str, "np.ndarray[Any, Any]"]
"""Arrays by input; the empty name stands for a signature's only input."""


@dataclass(frozen=True)
class GivenRequest:
    """A request: the `body` of a `:predict`, or `arrays` if `body` is None.

    Attributes:
        body: JSON.
        arrays: values by input.
        image: input and encoded image; the body has it in base64, and gRPC sends it as a string,
            for any dtype of pixels in the metadata.
    """

    body: bytes | None
    arrays: NamedInputs = field(default_factory=dict)
    image: tuple[str, bytes] | None = None
