"""The protocols by which a graph uses other models of the server, for one request at a time.

`models.served.ServedModels` is a `Models`, and `models.version.handle.Servable` a `Held`.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import CompiledModel


class LoadedModel(Protocol):
    """A loaded model that computes for a step."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def compiled(self) -> CompiledModel:
        """The compiled model."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """By name."""


class Held(LoadedModel, Protocol):
    """A version of a model. It stays loaded while it is held.

    The holder counts inline, as the data plane does: it adds one to `holders`, and at the end
    subtracts one; if that gives 0, it sets `unheld` where there is one.
    """

    holders: int
    unheld: asyncio.Event | None


class Models(Protocol):
    """The models that are served now."""

    def handle(self, spec: ModelSpec, /) -> Held:
        """Find the version that `spec` means. Also called in threads, while a graph loads.

        Raises:
            NotFound: no such model, or no such version is AVAILABLE.
            UnknownLabel: the label is not assigned.
        """


Record = Callable[[str, float], None]
"""Called with the name of each step that has run a model, and the seconds that this took."""
