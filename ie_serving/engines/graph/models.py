"""What a graph asks of the server: the right to use a model for one request. Nothing else.

`models.served.ServedModels` is a `Models`, and `models.version.handle.Servable` a `Held`.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import CompiledModel


class Loaded(Protocol):
    """What computes for a step."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def compiled(self) -> CompiledModel:
        """What computes."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """By name."""


class Held(Loaded, Protocol):
    """A version of a model. It stays loaded while it is held.

    Counted by whoever holds it, without calls, as the data plane does: one more, and at the end one
    less, and if that is none, `unheld` is set where there is one.
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
"""Is told the name of each step that has run a model, and the seconds that this took."""
