"""Completes models of third parties, which may lack methods of `CompiledModel`."""

from collections.abc import Callable, Mapping
from typing import Any

from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import CompiledModel, Stream
from ie_serving.engines.layers.layer import Layer


def completed(model: CompiledModel) -> CompiledModel:
    """Give a model the methods of `CompiledModel` that it lacks."""
    verbs = ("ahead", "stream", "update", "leave")
    return model if all(hasattr(model, verb) for verb in verbs) else _Plain(model)


class _Plain(Layer):
    """A model with those of the four methods that it has."""

    def ahead(self, signature: Signature) -> bool:
        """See `engines.base`."""
        own: Callable[[Signature], bool] | None = getattr(self.inner, "ahead", None)
        return own is not None and own(signature)

    @property
    def stream(self) -> Stream | None:
        """See `engines.base`."""
        return getattr(self.inner, "stream", None)

    @property
    def update(self) -> Callable[[Mapping[str, Any]], object] | None:
        """See `engines.base`."""
        return getattr(self.inner, "update", None)

    @property
    def leave(self) -> Callable[[], object] | None:
        """See `engines.base`."""
        return getattr(self.inner, "leave", self.close)
