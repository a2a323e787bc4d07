"""Describes models for the Open Inference Protocol, and as Triton's `ModelConfig`.

Only what is true here is set in a `ModelConfig`; clients take a field that is missing for its
default. Source: `model_config.proto` and `extension_model_configuration.md` of Triton.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ie_serving.core.values.integers import INT32_MAX
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

READY: Final = "READY"
UNAVAILABLE: Final = "UNAVAILABLE"
_STATES: Final = {
    State.START: "LOADING",
    State.LOADING: "LOADING",
    State.AVAILABLE: READY,
    State.UNLOADING: "UNLOADING",
    State.END: UNAVAILABLE,
}
_OPEN: Final = -1


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
        name: name of the model.
        versions: numbers of the versions that answer now.
        signature: signature of one of them.
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


def model_index(name: str, status: VersionStatus) -> ModelIndex:
    """Describe the state of one version."""
    # A version that failed is LOADING until its retry succeeds.
    state = UNAVAILABLE if status.error else _STATES[status.state]
    return ModelIndex(name, str(status.version), state, status.message)


class ModelDescription(NamedTuple):
    """What the configuration of a version says beside its signature.

    Attributes:
        name: name of the model.
        version_policy: policy as JSON, such as `{"latest": {"num_versions": 1}}`.
        instances: inferences that run at once.
        batch_rows: most rows of a gathered batch; 0 where requests run alone.
        batch_timeout_us: longest time in microseconds that a batch is gathered.
        keeps_sequences: whether requests of a sequence share a state.
        most_rows: most rows of a request, as the model's own file for Triton says; 0 where there is
            none.
    """

    name: str
    version_policy: Mapping[str, Any]
    instances: int
    batch_rows: int
    batch_timeout_us: int
    keeps_sequences: bool
    most_rows: int = 0


def model_config(described: ModelDescription, signature: Signature) -> dict[str, Any]:
    """Give the fields of a ModelConfig by name, with 64-bit numbers as numbers.

    Where the first dimension of each tensor is open, it is the batch, and dims leave it out.
    """
    inputs = [spec for spec in signature.inputs.values() if not spec.apart]
    outputs = [spec for spec in signature.outputs.values() if not spec.apart]
    has_batch = all(_is_open(spec) for spec in (*inputs, *outputs))
    group = {"name": described.name, "kind": "KIND_CPU", "count": described.instances}
    config = {
        "name": described.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "version_policy": described.version_policy,
        # A request may have any number of rows: gathering splits a longer one. A file says what
        # clients that come from Triton count on.
        "max_batch_size": (described.most_rows or INT32_MAX) if has_batch else 0,
        "input": list(_tensors(inputs, has_batch)),
        "output": list(_tensors(outputs, has_batch)),
        "instance_group": [group],
    }
    if described.keeps_sequences:
        config["sequence_batching"] = {}
    elif described.batch_rows:
        config["dynamic_batching"] = {
            "preferred_batch_size": [described.batch_rows],
            "max_queue_delay_microseconds": described.batch_timeout_us,
        }
    return config


def _is_open(spec: TensorSpec) -> bool:
    return spec.shape is not None and spec.shape[:1] == (_OPEN,)


def _tensors(specs: Iterable[TensorSpec], has_batch: bool) -> Iterable[dict[str, Any]]:
    for spec in specs:
        shape = ANY_RANK if spec.shape is None else spec.shape
        word = NAME_OF[spec.dtype]
        data_type = f"TYPE_{'STRING' if word == 'BYTES' else word}"
        yield {"name": spec.name, "data_type": data_type, "dims": list(shape[has_batch:])}
