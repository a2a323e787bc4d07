"""Gives graphs and kernels the server's other models, for one request at a time.

`app/application.py` hands them in at compilation; only the manager knows which versions serve.
`models.served_models.ServedModels` is an `OtherModels`, and `models.version.handle.Servable` a
`HeldModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ie_serving.engines.base import CompiledModel, Engine, EngineAround, EngineOptions

if TYPE_CHECKING:
    import asyncio

    from ie_serving.core.values.requests import ModelSpec
    from ie_serving.core.values.tensors import Signature


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


class HeldModel(LoadedModel, Protocol):
    """A version of a model. It stays loaded while it is held.

    Callers hold it as a context manager, or count inline, as the data plane does: they add one to
    `holders`, and at the end subtract one; if that gives 0, they set `unheld` where there is one.
    """

    name: str
    holders: int
    unheld: asyncio.Event | None

    def __enter__(self) -> HeldModel: ...

    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...  # noqa: ANN401


class OtherModels(Protocol):
    """The models that serve now."""

    def handle(self, spec: ModelSpec, /) -> HeldModel:
        """Find the version that `spec` means. In any thread.

        Raises:
            NotFound: no such model, or no such version is AVAILABLE.
            UnknownLabel: the label is not assigned.
        """


RecordStep = Callable[[str, float], None]
"""Called with the name of each step that has run a model, and the seconds that this took."""


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Options that no configuration sets: the surroundings of the model being compiled.

    Attributes:
        model: its name.
        others: the other models; None where none are served, as by `ie_serving check`.
    """

    model: str = ""
    others: OtherModels | None = None


class OtherModelsEngine(EngineAround):
    """`engine`, with the other models added to its options. See `engines.base.Engine`."""

    def __init__(self, engine: Engine, at_hand: Surroundings) -> None:
        super().__init__(engine)
        self._at_hand = at_hand

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        return self._engine.compile(directory, options.having(self._at_hand))
