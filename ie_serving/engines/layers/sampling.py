"""The base class of layers that take copies of a share of the requests, with their answers.

A request that is not sampled passes at the cost of one random number.
"""

import random
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Arrays, Read, Signature
from ie_serving.engines.base import REHEARSED, CompiledModel
from ie_serving.engines.layers.layer import Layer

T = TypeVar("T")

Take = Callable[[Arrays], None]
"""Takes the outputs of a sampled request, in any thread; must copy what it keeps."""
Sample = Callable[[Signature, Arrays], Take | None]
"""Called with a request that is sampled, before it runs, on the event loop: signature and inputs.
Copies what it keeps; None leaves the request out."""


class Sampling(Layer):
    """See the module.

    Args of the constructor:
        inner: the wrapped model.
        rate: share of the requests that are sampled, 0 to 1.
    """

    def __init__(self, inner: CompiledModel, rate: float) -> None:
        super().__init__(inner)
        self._rate = rate

    def sampled(self, signature: Signature, inputs: Arrays) -> Take | None:
        """See `Sample`."""
        raise NotImplementedError

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        return self.inner.infer(signature, inputs, self._reading(signature, inputs, read))

    def infer_as_sent(
        self,
        signature: Signature,
        inputs: Arrays,
        outputs: Collection[str],
        refusal: InvalidTensor,
        read: Read[T],
    ) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        reading = self._reading(signature, inputs, read)
        return self.inner.infer_as_sent(signature, inputs, outputs, refusal, reading)

    def _reading(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Read[T]:
        """Return `read`; for a sampled request, what takes the outputs and then calls `read`."""
        if random.random() >= self._rate or REHEARSED.get():
            return read
        take = self.sampled(signature, inputs)
        if take is None:
            return read

        def reading(outputs: Arrays) -> T:
            take(outputs)
            return read(outputs)

        return reading


class Copied(Sampling):
    """Hands copies to what compares them with a shadow (`inference/shadows.py`).

    Args of the constructor:
        inner: the wrapped model.
        rate: as of `Sampling`.
        sample: see `Sample`.
    """

    def __init__(self, inner: CompiledModel, rate: float, sample: Sample) -> None:
        super().__init__(inner, rate)
        self._sample = sample

    def sampled(self, signature: Signature, inputs: Arrays) -> Take | None:
        """See `Sample`."""
        return self._sample(signature, inputs)
