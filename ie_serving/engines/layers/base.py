"""A compiled model around a compiled model: what every layer inherits.

A layer adds one capability (images, batching, hooks) to any engine's model, and is not there where
nobody asks for it. It overrides what it changes; the rest passes through.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from ie_serving.core.tensors import Array, Signature
from ie_serving.engines.base import CompiledModel

T = TypeVar("T")


class Layer:
    """Passes everything on to `inner`. See `engines.base.CompiledModel`."""

    def __init__(self, inner: CompiledModel) -> None:
        self.inner = inner

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """See `engines.base`."""
        return self.inner.signatures

    def infer(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        return self.inner.infer(signature, inputs, read)

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`."""
        return self.inner.at_once(signature)

    def close(self) -> None:
        """See `engines.base`. The layer's own resources go first, then the inner model's."""
        self.inner.close()
