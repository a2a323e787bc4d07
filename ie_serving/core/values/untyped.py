"""Tensors whose dtype and shape only their sender knows (`TensorSpec.untyped`).

Python nodes of OpenVINO Model Server take and give them. A tensor of one of the server's dtypes,
with as many elements as its shape says, is an array as everywhere. Any other is one `Sent`, alone
in an array without dimensions, which passes through steps and layers as a string does.
"""

from collections.abc import Iterable

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.tensors import Array, Arrays


class Sent(bytes):
    """The buffer of a tensor, untouched.

    Attributes:
        datatype: word for its elements, in the Open Inference Protocol or of the sender's own.
        shape: as the sender says it; it need not fit the buffer.
    """

    datatype: str
    shape: tuple[int, ...]

    def __new__(cls, data: object, datatype: str, shape: Iterable[int]) -> "Sent":
        """Copy a buffer, such as a view of a request's payload.

        Raises:
            InvalidTensor: replies have no room for a size of the shape.
        """
        sizes = tuple(shape)
        if any(not 0 <= size <= INT64_MAX for size in sizes):
            raise InvalidTensor(f"shape {list(sizes)}: a size is from 0 to {INT64_MAX}")
        sent = super().__new__(cls, data)  # type: ignore[call-overload]
        sent.datatype = datatype
        sent.shape = sizes
        return sent  # type: ignore[no-any-return]

    @property
    def array(self) -> Array:
        """The array that carries it."""
        return _carrying(self)


def _carrying(value: Sent | None) -> Array:
    array: Array = np.empty((), np.object_)
    array[()] = value
    return array


ABSENT = _carrying(None)
"""In place of an untyped tensor that did not come."""


def sent_in(array: Array) -> Sent | None:
    """Give what an array carries; None where it is an array as any other."""
    found = array[()] if array.dtype.kind == "O" and not array.ndim else None
    return found if isinstance(found, Sent) else None


def is_absent(array: Array) -> bool:
    """Tell whether an array stands for a tensor that did not come."""
    return array.dtype.kind == "O" and not array.ndim and array[()] is None


def present(arrays: Arrays) -> dict[str, Array]:
    """Leave out what did not come."""
    return {name: array for name, array in arrays.items() if not is_absent(array)}
