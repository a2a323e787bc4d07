"""Routes requests of a sequence to the version that holds its state.

A sequence stays on the version that it was started on. If a request names no version and reaches
another one, the data plane repeats the request on that version, which the reply names.
"""

from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from ie_serving.core.values.errors import SequenceElsewhere
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.models.served_models import ServedModels
from ie_serving.models.version.handle import Servable


@runtime_checkable
class SequenceKeeper(Protocol):
    """A compiled model that keeps sequences; see `engines.layers.sequence_layer.SequenceLayer`."""

    def serve(self, version: int) -> None:
        """Start to serve clients as this version."""


async def open_to_clients(servable: Servable, directory: Path) -> None:
    """Discard the sequences of the warm-up. The last step before a version serves."""
    if isinstance(servable.compiled, SequenceKeeper):
        servable.compiled.serve(servable.version)


def following(
    models: ServedModels, request: InferRequest, error: BaseException
) -> InferRequest | None:
    """Return the same request, addressed to the version that holds its sequence.

    Returns:
        None if the request failed for another reason, if the client named a version, or if the
        version with the sequence is no longer AVAILABLE.
    """
    # A client that names a version wants that one; the error says which has the sequence.
    if not isinstance(error, SequenceElsewhere) or request.model.version:
        return None
    spec = ModelSpec(request.model.name, error.version, signature=request.model.signature)
    return replace(request, model=spec) if models.is_ready(spec) else None
