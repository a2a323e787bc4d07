"""Joins the rows of several requests in one array, where shapes and a trial permit it.

Outputs are split likewise: dimension 0 is the batch.

The memory of a batch beside its requests counts in the budget of bytes: its joined inputs, the
copies of its outputs, and the joined answer of a request that was split.

A model may compute across its batch: subtract the mean of all rows, sort rows, add them up. In a
batch with others, a request would then silently get other numbers than alone. So a few random rows
are run alone and together before the version serves. The trial cannot find a difference below the
tolerance, or one that only other values show.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Array, Arrays, DataType, Signature, TensorSpec, copies
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.layers import own_loop

ROWS = 3
"""Rows of the trial: with two, what one row does to the other could cancel out."""
TOLERANCE = 0.02
"""Tolerated share of the largest number of an output. With bf16 rows differ by a hundredth of it,
since the work is split otherwise for more of them."""
_OPENS = Hint("; set {openvino.batch_size} to auto, which opens it")
OPEN_SIZES = (16, 64, 224, 1)
"""Sizes that open dimensions are tried with, one for all of them, until the model takes them."""
# Fixed, so that a model is judged alike at each start.
_SEED = 7
_LARGEST = {DataType.UINT8: 255, DataType.INT8: 127}
"""Integers of these types go from 0 to these values, others only 0 and 1: they may be indices."""


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
                " dimension is not the batch; set max_batch_size to 0"
            )


def split(outputs: Arrays, counts: Sequence[int]) -> Iterator[Arrays]:
    """Give each part its rows of the outputs, as views; rows behind the last are left."""
    start = 0
    for count in counts:
        end = start + count
        yield {name: array[start:end] for name, array in outputs.items()}
        start = end


def together(outputs: Sequence[Arrays]) -> Arrays:
    """Join the outputs of a request's pieces. Raises as `joined`."""
    return {name: _concatenated([each[name] for each in outputs]) for name in outputs[0]}


def refused_by_shapes(signature: Signature) -> str:
    """Say why the declared shapes keep requests from sharing a batch; empty where they do not."""
    if not signature.inputs:
        return "it has no inputs"
    for spec in signature.inputs.values():
        if not spec.shape or spec.shape[0] != -1:
            return f"the first dimension of input {spec} is not open{_OPENS}"
    for spec in signature.outputs.values():
        if spec.shape is not None and spec.shape[:1] != (-1,):
            return f"the first dimension of output {spec} is not the batch"
    return ""


def refused_by_trial(model: CompiledModel, signature: Signature) -> str:
    """Say why rows cannot share a batch, after a trial; empty where they can. Blocking.

    Runs on an event loop of its own, before the model is used from another.
    """
    return own_loop.run(_refused(model, signature))


async def _refused(model: CompiledModel, signature: Signature) -> str:
    problem = ""
    for rows in candidates(signature, ROWS):
        try:
            return await _compared(model, signature, rows)
        except RowsLost as error:
            return str(error)
        # Any failure counts: on random numbers it says nothing about the clients' requests.
        except Exception as error:
            problem = str(error) if isinstance(error, ServingError) else repr(error)
    return f"its rows could not be tried one by one: {problem}"


async def _compared(model: CompiledModel, signature: Signature, rows: Arrays) -> str:
    alone = [
        await _infer(model, signature, {name: array[i : i + 1] for name, array in rows.items()})
        for i in range(ROWS)
    ]
    together = await _infer(model, signature, rows)
    for name, array in together.items():
        expected = [each[name] for each in alone]
        if any(each.shape[1:] != array.shape[1:] for each in expected):
            return f'rows of output "{name}" have another shape alone than together'
        if not _alike(np.concatenate(expected), array):
            return f'rows of output "{name}" depend on each other: alone they have other values'
    return ""


async def _infer(model: CompiledModel, signature: Signature, inputs: Arrays) -> Arrays:
    outputs = await model.infer(signature, inputs, copies)
    check_rows(outputs, len(next(iter(inputs.values()))))
    return outputs


def _alike(alone: Array, together: Array) -> bool:
    if alone.dtype.kind != "f":
        return bool(np.array_equal(alone, together))
    finite = np.abs(alone[np.isfinite(alone)])
    most = TOLERANCE * float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(alone, together, rtol=0.0, atol=most, equal_nan=True))


def has_open_rows(signature: Signature) -> bool:
    """Tell whether the shape of a single row is open in some input."""
    return any(-1 in (spec.shape or ())[1:] for spec in signature.inputs.values())


def candidates(signature: Signature, count: int) -> Iterator[Arrays]:
    """Yield `count` rows for each input; where a row's shape is open, in one size after another.

    Args:
        signature: all of whose inputs have the batch as their first dimension.
        count: count of the rows.
    """
    for size in OPEN_SIZES if has_open_rows(signature) else OPEN_SIZES[:1]:
        random = np.random.default_rng(_SEED)
        yield {name: _rows(spec, count, size, random) for name, spec in signature.inputs.items()}


def requests(signature: Signature) -> Iterator[Arrays]:
    """Yield requests for any signature, of one row where it may be, in one size after another."""
    for size in OPEN_SIZES:
        random = np.random.default_rng(_SEED)
        yield {
            name: _values(spec, _request(spec, size), random)
            for name, spec in signature.inputs.items()
        }


def _request(spec: TensorSpec, size: int) -> tuple[int, ...]:
    shape = (-1, -1) if spec.shape is None else spec.shape
    least = spec.bounds[0][0] if spec.bounds else 1
    first = (max(least, 1) if dim == -1 else dim for dim in shape[:1])
    return (*first, *_sizes(spec, shape[1:], size))


def _rows(spec: TensorSpec, count: int, size: int, random: "np.random.Generator") -> Array:
    assert spec.shape is not None  # an open rank has no first dimension
    return _values(spec, (count, *_sizes(spec, spec.shape[1:], size)), random)


def _values(spec: TensorSpec, shape: tuple[int, ...], random: "np.random.Generator") -> Array:
    dtype = spec.dtype.numpy
    if spec.dtype is DataType.STRING:
        # Numbers as texts: models that parse their strings read them, others take any.
        words = np.empty(shape, np.object_)
        words.flat[:] = [b"%d" % number for number in random.integers(0, 100, words.size)]
        return words
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, _LARGEST.get(spec.dtype, 1), shape, endpoint=True).astype(dtype)


def _sizes(spec: TensorSpec, row: tuple[int, ...], size: int) -> Iterator[int]:
    """Give the shape of one row; open dimensions have `size`, or the nearest allowed value."""
    bounds = spec.bounds[1:] if spec.bounds else ((1, size),) * len(row)
    for dim, (low, high) in zip(row, bounds, strict=True):
        yield min(max(size, low), high) if dim == -1 else dim
