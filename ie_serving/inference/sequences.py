"""What the data plane does for models that keep sequences of requests.

A sequence stays on the version that it was started on. A request that names no version is asked
anew of that one, and its reply names it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from ie_serving.core.values.errors import SequenceElsewhere
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.models.served import ServedModels
from ie_serving.models.version.handle import Servable


@runtime_checkable
class KeepsSequences(Protocol):
    """A compiled model that keeps sequences; see `engines.layers.sequences.SequenceLayer`."""

    def serve(self, version: int) -> None:
        """Be this version for clients."""


async def open_to_clients(servable: Servable, directory: Path) -> None:
    """Have a version forget the sequences of its warm-up. The last step before it serves."""
    if isinstance(servable.compiled, KeepsSequences):
        servable.compiled.serve(servable.version)


def following(
    models: ServedModels, request: InferRequest, error: BaseException
) -> InferRequest | None:
    """Give the same request of the version that has its sequence.

    Returns:
        None where that is not what it failed for, where the client wants this version alone, and
        where the other one is no longer AVAILABLE.
    """
    # Who names a version means it; the error then tells which one has the sequence.
    if not isinstance(error, SequenceElsewhere) or request.model.version:
        return None
    spec = ModelSpec(request.model.name, error.version, signature=request.model.signature)
    return replace(request, model=spec) if models.is_ready(spec) else None
