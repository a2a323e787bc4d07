"""Models and their tensors in the words of the Open Inference Protocol, for both interfaces."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from ie_serving.core.values.tensors import Signature, TensorSpec
from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.wire.kserve.datatypes import NAME_OF

PLATFORM: Final = "ie_serving"
"""What runs every model, as far as clients can tell: drivers and layers are not theirs to know."""
IMAGE: Final = "encoded_image"
"""Parameter of an input that takes encoded images, too: the size and colours that they become."""
COMPARED: Final = "compared"
"""Parameter of a model that was to be compared with a second engine: what that has shown."""
ANY_RANK: Final = (-1,)
"""Shape of a tensor whose rank is open, which the protocol cannot say."""


class TensorMetadata(NamedTuple):
    """One input or output.

    Attributes:
        parameters: what the protocol's own fields cannot say. Source: MLServer's dataplane.proto.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Mapping[str, str]

    def as_json(self) -> dict[str, object]:
        """Give what REST writes: parameters only where there are any, as few clients know them."""
        told = self._asdict()
        if not self.parameters:
            del told["parameters"]
        return told


class ModelMetadata(NamedTuple):
    """What `GET /v2/models/{name}` and `ModelMetadata` tell."""

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
_STATES: Final = MappingProxyType(
    {
        State.START: "LOADING",
        State.LOADING: "LOADING",
        State.AVAILABLE: READY,
        State.UNLOADING: "UNLOADING",
        State.END: UNAVAILABLE,
    }
)


def model_index(name: str, status: VersionStatus) -> ModelIndex:
    """Describe the state of one version."""
    # One that failed is tried again, and LOADING meanwhile, as TensorFlow Serving has it.
    state = UNAVAILABLE if status.error else _STATES[status.state]
    return ModelIndex(name, str(status.version), state, status.message)
