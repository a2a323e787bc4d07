"""Joins the rows of several requests in one array, and splits outputs: dimension 0 is the batch.

The memory of a batch beside its requests counts in the budget of bytes: its joined inputs, the
copies of its outputs, and the joined answer of a request that was split.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Array, Arrays


class RowsLost(ServingError):
    """The outputs of a batch do not have its rows."""


def rows_of(inputs: Arrays) -> int:
    """Give the rows that every input has; 0 where there are none, or not as many in each."""
    rows = 0
    for array in inputs.values():
        if not array.ndim or (rows and array.shape[0] != rows):
            return 0
        rows = array.shape[0]
    return rows


def form_of(inputs: Arrays, names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Give the shapes of single rows, by which inputs can be joined or not."""
    return tuple([inputs[name].shape[1:] for name in names])


def pieces(inputs: Arrays, rows: int, most: int) -> Iterator[tuple[Arrays, int]]:
    """Cut the rows into pieces of at most `most`; views, in order."""
    if rows <= most:
        yield inputs, rows
        return
    for start in range(0, rows, most):
        end = min(start + most, rows)
        yield {name: array[start:end] for name, array in inputs.items()}, end - start


def joined(parts: Sequence[Arrays], rows: int, size: int) -> Arrays:
    """Join parts that have `rows` in all; more rows up to `size` repeat the last one.

    Raises:
        QueueFull, RequestTooLarge: the budget of bytes has no room.
    """
    if len(parts) == 1 and rows == size:
        return parts[0]
    return {name: _joined([part[name] for part in parts], size - rows) for name in parts[0]}


def _joined(arrays: list[Array], missing: int) -> Array:
    if missing:
        # A row that is there, not zeros: a model may refuse these, and the whole batch with them.
        last = arrays[-1][-1:]
        arrays.append(np.broadcast_to(last, (missing, *last.shape[1:])))
    return _concatenated(arrays)


def _concatenated(arrays: Sequence[Array]) -> Array:
    shape = (sum([len(array) for array in arrays]), *arrays[0].shape[1:])
    return np.concatenate(arrays, out=BUDGET.empty(shape, arrays[0].dtype))


def counted_copies(outputs: Arrays) -> Arrays:
    """Copy them into memory that is counted while a request refers to its rows.

    Raises:
        QueueFull, RequestTooLarge: the budget of bytes has no room.
    """
    return {name: BUDGET.copy(array) for name, array in outputs.items()}


def check_rows(outputs: Arrays, size: int) -> None:
    """Refuse outputs that cannot be split by rows.

    Raises:
        RowsLost: naming the output.
    """
    for name, array in outputs.items():
        if not array.ndim or array.shape[0] != size:
            raise RowsLost(
                f'output "{name}" has the shape {array.shape} for a batch of {size} rows: its first'
                " dimension is not the batch"
            )


def split(outputs: Arrays, counts: Sequence[int]) -> Iterator[Arrays]:
    """Give each part its rows of the outputs, as views; rows behind the last are left."""
    start = 0
    for count in counts:
        end = start + count
        yield {name: array[start:end] for name, array in outputs.items()}
        start = end


def together(answers: Sequence[Arrays]) -> Arrays:
    """Join the outputs of a request's pieces. Raises as `joined`."""
    return {name: _concatenated([each[name] for each in answers]) for name in answers[0]}
