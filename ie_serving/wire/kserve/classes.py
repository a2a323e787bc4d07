"""Turns an output into its highest values with their classes: Triton's `classification`.

Source: `extension_classification.md` of Triton. A class is a text, `VALUE:INDEX` or
`VALUE:INDEX:LABEL`, the value with six digits behind the point where it is a float.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType, TensorSpec

CLASSIFICATION: Final = "classification"
"""Parameter of a requested output: how many classes it shall have."""
_OPEN: Final = -1
_NUMBERS: Final = "fiu"
"""Kinds of numpy's types that are ordered numbers."""


def number_of_classes(value: object, output: str) -> int:
    """Read the parameter. Raises: InvalidRequest."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidRequest(
            f'parameter "{CLASSIFICATION}" of output "{output[:200]}" has to be a number from 1'
        )
    return value


def classified(
    spec: TensorSpec, array: Array, most: int, labels: Sequence[str]
) -> tuple[TensorSpec, Array]:
    """Give the output of BYTES in place of one of numbers.

    Args:
        spec: spec of the output. An open first dimension is the batch, and each row has its
            classes; otherwise the whole output has one list.
        array: its values.
        most: classes that are wanted; fewer where there are fewer values.
        labels: names of classes by index; beyond the last, classes have none.

    Returns:
        The spec, and texts of the shape `[rows, classes]` or `[classes]`, highest value first, of
        equal ones the lower index; NaN comes last.

    Raises:
        InvalidRequest: the output has no numbers.
    """
    if array.dtype.kind not in _NUMBERS:
        raise InvalidRequest(
            f'output "{spec.name}" has no classes, as it is {spec.dtype.name}; ask for classes of'
            " an output of numbers"
        )
    # Outputs of a scalar that was sent for rows have no dimension.
    has_batch = array.ndim > 0 and spec.shape is not None and spec.shape[:1] == (_OPEN,)
    rows = array.reshape(len(array), -1) if has_batch and len(array) else array.reshape(1, -1)
    rows = rows[: len(array)] if has_batch else rows
    texts = [_classes(row, most, labels) for row in rows]
    shape = (len(rows), min(most, rows.shape[1])) if has_batch else (min(most, rows.shape[1]),)
    found = np.array(texts, object).reshape(shape)
    return replace(spec, dtype=DataType.STRING, shape=None), found


def _classes(row: Array, most: int, labels: Sequence[str]) -> list[bytes]:
    # Sorted from the highest, stable: negated integers of 64 bits would overflow.
    order = len(row) - 1 - np.argsort(row[::-1], kind="stable")[::-1]
    if row.dtype.kind == "f":
        order = order[np.argsort(np.isnan(row[order]), kind="stable")]
    return [_text(row[index], int(index), labels) for index in order[:most].tolist()]


def _text(value: np.generic, index: int, labels: Sequence[str]) -> bytes:
    number = f"{value:f}" if value.dtype.kind == "f" else str(value)
    label = f":{labels[index]}" if index < len(labels) else ""
    return f"{number}:{index}{label}".encode()
