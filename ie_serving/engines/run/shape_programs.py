"""Runs requests whose shapes a signature does not declare, where TensorFlow would compute them.

TensorFlow's session holds requests to no placeholder's shape, and published clients rely on it. A
request that was refused for its shapes comes here: an input that no asked output is computed from
takes any shape, and for other shapes the graph is compiled once more, beside the program of the
declared ones.
"""

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import numpy as np

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidTensor, QueueFull
from ie_serving.core.values.fit import admits, cast_all, fit, shed
from ie_serving.core.values.tensors import Array, Read, Signature, TensorSpec
from ie_serving.engines.run.program import RunnableSignature
from ie_serving.engines.run.rank_programs import MOST, MakeProgram, OpenRankProgram

T = TypeVar("T")
InputShapes = tuple[tuple[int, ...] | None, ...]
ReadBy = Callable[[], Mapping[str, Collection[str]]]
"""Names for each output the inputs from which it is computed. Blocking."""

SAVED_S = 30.0
"""Seconds of rest that refused shapes may owe before the next ones wait: with `REST`, about three
seconds of trials in a row, and in the long run a tenth of the time. So the first mistakes of a
beginner with a small model are all refused at once, each with its cause."""
MOST_ZEROS = 1 << 26
"""Bytes that take the place of an input that is not read. A small request with many rows would fill
the memory otherwise; beyond, the input counts as read."""


class SentShapeProgram(OpenRankProgram):
    """Runs one signature for shapes as they are sent. Used from one event loop.

    Args of the constructor:
        program: program of the declared shapes.
        make: compiles for shapes, one for each input in order; -1 for any size.
        read_by: function of the signature, a `ReadBy`.
        clock: gives seconds.
    """

    def __init__(
        self,
        program: RunnableSignature,
        make: MakeProgram,
        read_by: ReadBy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(program.signature, list(program.signature.inputs), make, clock)
        self._declared = program
        self._read_by = read_by
        self._inputs: Mapping[str, Collection[str]] = {}
        self._reading = asyncio.Lock()

    async def answer(
        self,
        inputs: Mapping[str, Array],
        outputs: Collection[str],
        refusal: InvalidTensor,
        read: Read[T],
    ) -> T:
        """Answer a request as TensorFlow does.

        Args:
            inputs: values by alias.
            outputs: names of the requested outputs.
            refusal: the error by which the request was refused.
            read: argument of `CompiledModel.infer`.

        Raises:
            InvalidTensor: `refusal`, where TensorFlow refuses the shapes too, or might.
            QueueFull: it is not known yet whether the graph takes these shapes, and they may not be
                tried now.
        """
        signature = self.signature
        cast = cast_all(signature, inputs)
        tensors = _without_unread(signature, cast, await self._inputs_of(outputs))
        try:
            fitted, added = fit(signature, tensors)
        except InvalidTensor:
            return await self._by_shapes(tensors, refusal, read)
        return await self._declared.infer(fitted, lambda given: read(shed(given, added)))

    async def _inputs_of(self, outputs: Collection[str]) -> Collection[str]:
        async with self._reading:  # the graph is read once, whatever outputs are asked for
            self._inputs = self._inputs or await in_thread(self._read_by)
        return {name for each in outputs for name in self._inputs[each]}

    async def _by_shapes(
        self, tensors: Mapping[str, Array], refusal: InvalidTensor, read: Read[T]
    ) -> T:
        specs = self.signature.inputs
        shapes = tuple([_shape(specs[name], tensors[name].shape) for name in specs])
        try:
            self._check_rest(shapes)
            kept = self._take(shapes)
        except InvalidTensor as error:
            raise refusal from error
        except QueueFull as error:
            raise QueueFull(f"{refusal}; other shapes may be taken, but {error}") from error
        kept.users += 1
        try:
            return await (await self._program(kept, shapes)).infer(tensors, read)
        except InvalidTensor as error:
            raise refusal from error
        finally:
            kept.users -= 1
            self._free_if_unused(kept)

    def _check_rest(self, shapes: InputShapes) -> None:
        """Let no further shapes be tried for a while: to find some unfit takes about a load.

        Raises: QueueFull.
        """
        known = any(shapes in each for each in (self._kept, self._compiling, self._refused))
        rests_s = self._rests_until - self._clock() - SAVED_S
        if not known and rests_s > 0:
            raise QueueFull(
                f"the next ones are tried in {math.ceil(rests_s)} s: send the request again then,"
                f" and keep to {MOST} shapes"
            )

    def _note_refused(self, took_s: float) -> None:
        self._rest(took_s)

    def _refusal(self, ranks: InputShapes, why: str) -> InvalidTensor:
        return InvalidTensor(f"shapes {ranks} cannot be taken: {why}")


def _without_unread(
    signature: Signature, inputs: Mapping[str, Array], wanted: Collection[str]
) -> Mapping[str, Array]:
    """Put zeros in place of inputs of other shapes that are not read."""
    unread = [
        name
        for name, spec in signature.inputs.items()
        if name not in wanted and not admits(spec.shape, inputs[name].shape)
    ]
    rows = {
        inputs[name].shape[0]
        for name, spec in signature.inputs.items()
        if name not in unread and spec.shape and spec.shape[0] == -1 and inputs[name].ndim
    }
    batch = rows.pop() if len(rows) == 1 else 1
    zeros = {name: _zeros(signature.inputs[name], batch) for name in unread}
    return {**inputs, **{name: array for name, array in zeros.items() if array is not None}}


def _zeros(spec: TensorSpec, batch: int) -> Array | None:
    """Make an input of a declared shape; None beyond `MOST_ZEROS`."""
    sizes = [1 if size == -1 else size for size in spec.shape or ()]
    if spec.shape and spec.shape[0] == -1:
        sizes[0] = batch
    if math.prod(sizes) * spec.dtype.numpy.itemsize > MOST_ZEROS:
        return None
    empty = b"" if spec.dtype.numpy == np.object_ else 0
    return np.full(sizes, empty, spec.dtype.numpy)


def _shape(spec: TensorSpec, given: tuple[int, ...]) -> tuple[int, ...] | None:
    """Give the shape to compile for: the declared one, or the sent one of any first size."""
    if admits(spec.shape, given):
        return spec.shape
    if spec.shape is not None and len(spec.shape) == len(given):
        pairs = list(zip(spec.shape, given, strict=True))
        sizes = [want if want in (got, -1) else got for want, got in pairs]
        return (sizes[0] if spec.shape[0] == given[0] else -1, *sizes[1:])
    return (-1, *given[1:]) if given else ()
