"""The protocols that a driver implements to be run: infer requests, and their admission."""

from collections.abc import Collection, Sequence
from typing import Protocol

from ie_serving.core.values.tensors import Arrays

Outputs = Arrays
Shapes = tuple[tuple[int, ...], ...]
"""The shape of each input, in the order of `Admission.names`."""


class InferRequest(Protocol):
    """Memory and engine state for one inference at a time.

    The outputs are views that the next inference overwrites. Errors of the engine are of the types
    that its driver names to `Program`.
    """

    def fill(self, inputs: Arrays) -> None:
        """Copy the inputs in. Raises: InvalidTensor; NotFinite, for another program to take."""

    def run(self) -> Outputs:
        """Infer the filled inputs once, in the fastest way that is safe for this model."""

    def run_new(self) -> Outputs:
        """As `run`, for inputs of shapes that this model may not have seen. In any thread."""

    def cancel(self) -> None:
        """Let a run, in another thread, end early with an error where that harms nothing."""

    def renew(self) -> None:
        """Put the request in order after a failure. Blocking, for seconds if `renews`."""

    @property
    def renews(self) -> bool:
        """Whether `renew` has anything to do."""


class QueuedRequest(InferRequest, Protocol):
    """An infer request that can be queued in the engine while the engine runs others."""

    def start(self) -> None:
        """Queue the filled inputs behind the engine's running inference. Does not wait."""

    def finish(self) -> Outputs:
        """Wait for the started inference; give its outputs. In any thread. Raises as `run_new`."""


class Admission(Protocol):
    """Which combinations of input shapes a model takes.

    Attributes:
        names: the inputs whose shapes are open, in order.
        known: combinations that need no `check` any more.
    """

    @property
    def names(self) -> Sequence[str]:
        """See above."""

    @property
    def known(self) -> Collection[Shapes]:
        """See above."""

    async def check(self, shapes: Shapes) -> None:
        """Let a combination pass that is not known.

        Raises:
            InvalidTensor: the model does not take it.
            QueueFull: too many wait for their check already.
        """
