"""Describes models and their tensors by the Open Inference Protocol, for REST and gRPC."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ie_serving.core.values.tensors import Signature, TensorSpec
from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.wire.kserve.datatypes import NAME_OF

PLATFORM: Final = "ie_serving"
"""The platform of every model: drivers and layers are not shown to clients."""
IMAGE: Final = "encoded_image"
"""Parameter of an input that takes encoded images, too: the size and colours that they become."""
COMPARED: Final = "compared"
"""Parameter of a model with the result of its comparison with a second engine."""
ANY_RANK: Final = (-1,)
"""Shape of a tensor whose rank is open, which the protocol cannot express."""


class TensorMetadata(NamedTuple):
    """One input or output.

    Attributes:
        parameters: facts beyond the protocol's fields. Source: MLServer's dataplane.proto.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Mapping[str, str]

    def as_json(self) -> dict[str, object]:
        """Give the JSON for REST: parameters only where there are any, as few clients know them."""
        told = self._asdict()
        if not self.parameters:
            del told["parameters"]
        return told


class ModelMetadata(NamedTuple):
    """The reply of `GET /v2/models/{name}` and `ModelMetadata`."""

    name: str
    versions: Sequence[str]
    platform: str
    inputs: Sequence[TensorMetadata]
    outputs: Sequence[TensorMetadata]
    parameters: Mapping[str, str]


class ModelIndex(NamedTuple):
    """One version in the index of the repository."""

    name: str
    version: str
    state: str
    reason: str


def model_metadata(name: str, versions: Iterable[int], signature: Signature) -> ModelMetadata:
    """Describe a model by the signature that requests of the protocol run.

    Args:
        name: of the model.
        versions: that answer now.
        signature: of one of them.
    """
    return ModelMetadata(
        name,
        [str(version) for version in sorted(versions)],
        PLATFORM,
        [_described(spec) for spec in signature.inputs.values()],
        [_described(spec) for spec in signature.outputs.values()],
        {COMPARED: signature.evidence.told} if signature.evidence else {},
    )


def _described(spec: TensorSpec) -> TensorMetadata:
    shape = ANY_RANK if spec.shape is None else spec.shape
    parameters = {IMAGE: spec.image.described()} if spec.image else {}
    return TensorMetadata(spec.name, NAME_OF[spec.dtype], shape, parameters)


READY: Final = "READY"
UNAVAILABLE: Final = "UNAVAILABLE"
_STATES: Final = {
    State.START: "LOADING",
    State.LOADING: "LOADING",
    State.AVAILABLE: READY,
    State.UNLOADING: "UNLOADING",
    State.END: UNAVAILABLE,
}


def model_index(name: str, status: VersionStatus) -> ModelIndex:
    """Describe the state of one version."""
    # A version that failed is LOADING until its retry succeeds.
    state = UNAVAILABLE if status.error else _STATES[status.state]
    return ModelIndex(name, str(status.version), state, status.message)
