"""Gives drivers access to the server's other models, such as graphs that call them.

`app/application.py` hands them in at compilation; only the manager knows which versions serve.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ie_serving.engines.around import EngineAround
from ie_serving.engines.base import CompiledModel, Engine, EngineOptions

if TYPE_CHECKING:
    from ie_serving.core.values.requests import ModelSpec
    from ie_serving.core.values.tensors import Arrays, Signature


class Others(Protocol):
    """The models that serve now."""

    def signature(self, spec: ModelSpec) -> Signature:
        """Give the signature that `spec` means. In any thread. Raises: ServingError."""

    def infer(self, spec: ModelSpec, inputs: Arrays) -> Awaitable[Arrays]:
        """Run it as a request would. On the event loop; outputs are copies. Raises: as above."""


@dataclass(frozen=True, eq=False)
class AtHand:
    """Options that no configuration sets: the surroundings of the model being compiled.

    Attributes:
        model: its name.
        others: the other models; None where none are served, as by `ie_serving check`.
    """

    model: str = ""
    others: Others | None = None


class WithOthers(EngineAround):
    """`engine`, with the other models added to its options. See `engines.base.Engine`."""

    def __init__(self, engine: Engine, at_hand: AtHand) -> None:
        super().__init__(engine)
        self._at_hand = at_hand

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        return self._engine.compile(directory, options.having(self._at_hand))
