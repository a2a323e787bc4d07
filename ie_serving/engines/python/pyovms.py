"""`pyovms`, the module that Python nodes of OpenVINO Model Server import: named tensors.

Only the modules of such a kernel see it (`own_modules.py`). Source: "Python Execution in OpenVINO
Model Server" of its documentation, section "Python Tensor".
"""

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import numpy as np

DATATYPES: Mapping[str, str] = {
    "bool": "BOOL",
    **{
        f"{kind}{bits}": f"{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32)
    },
    **{"int64": "INT64", "uint64": "UINT64"},
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
}
"""KServe's words for element types, by numpy's."""

BYTES = "BYTES"
"""Datatype of strings: each behind its length, in four bytes, little-endian."""


class Tensor(np.ndarray[Any, Any]):
    """A named buffer. It is an array, since arrays give buffers of any format in Python.

    Args of the constructor:
        name: of the input or output.
        data: has a buffer: bytes, an array, another tensor. Also called `buffer`, as in its code.
        shape: value of the attribute `shape`, even if the buffer's differs; None: the buffer's.
        datatype: value of the attribute `datatype`; None: the name of the buffer's format.

    `data` is a `memoryview`, as of every array.
    """

    # Of arrays that are cut out of one, too.
    name = ""
    datatype = ""
    _shape: tuple[int, ...] | None = None

    def __new__(
        cls,
        name: str,
        data: Any = None,  # noqa: ANN401  whatever has a buffer
        shape: Sequence[int] | None = None,
        datatype: str | None = None,
        *,
        buffer: Any = None,  # noqa: ANN401
    ) -> "Tensor":
        """Wrap the buffer, which is not copied. Raises: TypeError, where there is none."""
        data = buffer if data is None else data
        array = np.asarray(data if isinstance(data, np.ndarray) else memoryview(data))
        tensor = array.view(cls)
        tensor.name = name
        tensor.datatype = datatype or DATATYPES.get(array.dtype.name) or array.data.format
        tensor._shape = None if shape is None else tuple(map(index, shape))
        return tensor

    # Not numpy's: the documentation defines these two differently.
    @property  # type: ignore[misc]
    def shape(self) -> tuple[int, ...]:
        """The constructor's argument, else the buffer's shape."""
        return super().shape if self._shape is None else self._shape

    def __bytes__(self) -> bytes:
        """Give the buffer; `bytes` would take an integer without dimensions for a length."""
        return self.tobytes()

    @property
    def size(self) -> int:
        """Bytes of the buffer."""
        return self.nbytes
