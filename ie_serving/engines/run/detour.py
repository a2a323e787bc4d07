"""Requests with NaN or positive infinity, which another program of the signature computes."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ie_serving.core.errors import InvalidTensor, LoadFailed
from ie_serving.core.tensors import Array
from ie_serving.engines.run.on_demand import OnDemand

if TYPE_CHECKING:
    from ie_serving.engines.run.program import Read, Runs

T = TypeVar("T")

HALF = 2
"""Bytes of a float16: a square of 256 is beyond it."""

LARGE = 1 << 22
"""Elements of a request from which on `looks` is to be asked: the event loop would take 0.4 ms."""


class Detour:
    """Sends such requests to `other`. The rest pay a look at their floats: 0.8 us for 784.

    Args of the constructor:
        names: inputs of floats. A request may lack some: states of a sequence that begins.
        other: computes the signature whatever the floats are.
    """

    def __init__(self, names: Sequence[str], other: "OnDemand[Runs]") -> None:
        self._names = names
        self._other = other

    def beside(self, names: Sequence[str]) -> "Detour":
        """Look at further inputs as well."""
        return Detour([*self._names, *names], self._other)

    def takes(self, inputs: Mapping[str, Array]) -> bool:
        """Whether an input holds NaN or positive infinity."""
        return any(_is_odd(inputs[name]) for name in self._names if name in inputs)

    async def looks(self, inputs: Mapping[str, Array]) -> bool:
        """See `takes`: in a thread."""
        return await asyncio.to_thread(self.takes, inputs)

    async def infer(self, inputs: Mapping[str, Array], read: "Read[T]") -> T:
        """See `CompiledModel.infer`. Raises InvalidTensor where the other program cannot be had."""
        try:
            program = await self._other.get()
        except LoadFailed as error:
            raise InvalidTensor(
                f"one of {', '.join(self._names)} holds NaN or infinity, for which the model is"
                f" compiled a second time, and this failed: {error}"
            ) from error
        return await program.infer(inputs, read)

    def close(self) -> None:
        """Close the other program, if it was ever opened."""
        self._other.close()


def _is_odd(array: Array) -> bool:
    # The sum of squares takes no memory, and is finite for nearly every request, but of halves.
    if array.itemsize > HALF and math.isfinite(np.vdot(array, array)):
        return False
    # Not negative infinity: models are asked with it as a mask.
    return not array.max(initial=-np.inf) < np.inf
