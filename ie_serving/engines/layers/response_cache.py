"""The layer that keeps recent answers: equal inputs get an equal answer without an inference.

The key is the signature and every byte of the inputs, so outputs never depend on a guess. A
version has its own layer: its outputs go with it.
"""

import math
from functools import partial
from pathlib import Path
from typing import TypeVar

from ie_serving.core.values.tensors import Arrays, Read, Signature, copies
from ie_serving.engines.base import REHEARSED, CompiledModel, EngineOptions
from ie_serving.engines.layer_options import Caching
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.run.cache import OutputCache
from ie_serving.telemetry.metrics.layers import CacheMetrics

T = TypeVar("T")


def caching(
    model: CompiledModel, _: Path, options: EngineOptions, *, counts: CacheMetrics
) -> CompiledModel:
    """Wrap a model whose options ask for it; see the module."""
    most_bytes = options.of(Caching).response_cache_bytes
    return ResponseCache(model, most_bytes, counts) if most_bytes else model


class ResponseCache(Layer):
    """See the module.

    Args of the constructor:
        inner: the wrapped model.
        most_bytes: largest sum of bytes of the outputs that are kept.
        counts: counts of the model.
    """

    def __init__(self, inner: CompiledModel, most_bytes: int, counts: CacheMetrics) -> None:
        super().__init__(inner)
        self._cache = OutputCache(math.inf, most_bytes=most_bytes)
        self._counts = counts

    async def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> T:
        """See `engines.base`."""
        if REHEARSED.get():
            return await self.inner.infer(signature, inputs, read)
        compute = partial(self._compute, signature, inputs)
        self._counts.asked += 1
        return read(await self._cache.get(signature.name, inputs, compute))

    async def _compute(self, signature: Signature, inputs: Arrays) -> Arrays:
        self._counts.missed += 1
        return await self.inner.infer(signature, inputs, copies)

    def close(self) -> None:
        """See `engines.base`."""
        self._cache.close()
        super().close()
