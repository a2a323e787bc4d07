"""The tensors of a model as its `config.pbtxt` declares them.

Numpy is not imported at run time: the arbiter process holds settings with these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ie_serving.core.values.tensors import DataType


@dataclass(frozen=True)
class DeclaredTensor:
    """One input or output.

    Attributes:
        dtype: None where the declaration leaves it to the model.
        dims: without the batch; None where the declaration leaves them to the model.
    """

    name: str
    dtype: DataType | None
    dims: tuple[int, ...] | None


@dataclass(frozen=True)
class Declared:
    """The tensors that a file declares; without any, and without a batch, it declares nothing.

    Attributes:
        file: which declares them.
        max_batch_size: 0 where no dimension is the batch.
    """

    file: str
    max_batch_size: int
    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
