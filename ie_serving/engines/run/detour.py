"""Sends requests with NaN or positive infinity to another program of the signature."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.run.on_demand import OnDemand

if TYPE_CHECKING:
    from ie_serving.engines.run.program import Read, Runs

T = TypeVar("T")


class NotFinite(Exception):
    """Raised by an infer request's `fill` when the inputs have NaN or positive infinity."""


class Detour:
    """Sends such requests to `other`.

    Args of the constructor:
        names: inputs of floats, which infer requests look at.
        other: computes the signature whatever the floats are.
    """

    def __init__(self, names: Sequence[str], other: "OnDemand[Runs]") -> None:
        self.names = names
        self._other = other

    async def infer(self, inputs: Arrays, read: "Read[T]") -> T:
        """See `CompiledModel.infer`. Raises InvalidTensor where the other program cannot be had."""
        try:
            program = await self._other.get()
        except LoadFailed as error:
            raise InvalidTensor(
                f"one of {', '.join(self.names)} holds NaN or infinity, for which the model is"
                f" compiled a second time, and this failed: {error}"
            ) from error
        return await program.infer(inputs, read)

    def close(self) -> None:
        """Close the other program, if it was ever opened."""
        self._other.close()
