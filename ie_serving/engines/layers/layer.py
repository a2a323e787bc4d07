"""The base class of layers: a compiled model that wraps a compiled model.

A layer adds one capability (images, batching, hooks) to any engine's model; models that do not use
the capability have no such layer. It overrides only the methods that it changes.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Arrays, Read, Signature
from ie_serving.engines.base import CompiledModel, Engine, EngineAround, EngineOptions, Stream

T = TypeVar("T")


class Layer(CompiledModel):
    """Passes everything on to `inner`. See `engines.base.CompiledModel`.

    Args of the constructor:
        inner: the wrapped model.
        signatures: replace those of `inner` for clients; None keeps them.
    """

    def __init__(
        self, inner: CompiledModel, signatures: Mapping[str, Signature] | None = None
    ) -> None:
        self.inner = inner
        self.signatures = inner.signatures if signatures is None else signatures

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        return self.inner.infer(signature, inputs, read)

    def infer_as_sent(
        self,
        signature: Signature,
        inputs: Arrays,
        outputs: Collection[str],
        refusal: InvalidTensor,
        read: Read[T],
    ) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        return self.inner.infer_as_sent(signature, inputs, outputs, refusal, read)

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`."""
        return self.inner.at_once(signature)

    def ahead(self, signature: Signature) -> bool:
        """See `engines.base`."""
        return self.inner.ahead(signature)

    @property
    def update(self) -> "Callable[[Mapping[str, Any]], object] | None":
        """See `engines.base`."""
        return self.inner.update

    @property
    def stream(self) -> Stream | None:
        """See `engines.base`: the model's own, in the clients' form of tensors."""
        return self.inner.stream

    @property
    def leave(self) -> Callable[[], object] | None:
        """See `engines.base`."""
        return self.inner.leave

    def close(self) -> None:
        """See `engines.base`. The layer's own resources go first, then the inner model's."""
        self.inner.close()


WrapModel = Callable[[CompiledModel, Path, EngineOptions], CompiledModel]
"""Puts a layer around a model of a directory, or gives the model where its options ask for none.

Raises: LoadFailed, for options that do not fit the model, which its caller then closes."""


class LayeredEngine(EngineAround):
    """`engine`, with layers around its models. See `engines.base.Engine`.

    Args of the constructor:
        engine: compiles the models.
        wraps: layers from the innermost outwards.
    """

    def __init__(self, engine: Engine, *wraps: WrapModel) -> None:
        super().__init__(engine)
        self._wraps = wraps

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`. Raises: also as the layers do."""
        model = self._engine.compile(directory, options)
        try:
            for wrap in self._wraps:
                model = wrap(model, directory, options)
        except BaseException:
            model.close()  # it has no other owner yet
            raise
        return model


def with_defaults(model: CompiledModel) -> CompiledModel:
    """Give a model the methods of `CompiledModel` that it lacks."""
    verbs = ("ahead", "stream", "update", "leave")
    return model if all(hasattr(model, verb) for verb in verbs) else _PlainLayer(model)


class _PlainLayer(Layer):
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
