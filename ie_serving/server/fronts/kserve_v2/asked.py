"""Finds the servable that a request of the Open Inference Protocol names, over REST or gRPC."""

from collections.abc import Mapping, Sequence
from typing import Final

from ie_serving.core.values.errors import InvalidRequest, NotFound
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Signature, TensorSpec
from ie_serving.inference.interface import Api
from ie_serving.models.version.handle import Servable

METHODS: Final[Mapping[Api, str]] = {Api.PREDICT: "ModelInfer", Api.METADATA: "ModelMetadata"}
"""Names of the counted operations in the metrics, the same for both interfaces."""

EVERYWHERE: Final = (
    *("sequence", "statistics", "parameters", "model_configuration", "model_repository"),
    "classification",
    *("logging", "trace"),
)
"""Triton's extensions, by its names, that both interfaces implement."""

_DIGITS: Final = len(str(INT64_MAX))


def model_spec(name: str, version: str) -> ModelSpec:
    """Read a version, which is a string in the protocol.

    Args:
        name: of the model.
        version: a number, or a label; empty for the default version.

    Raises:
        NotFound: the number is too large for a version.
    """
    if not version:
        return ModelSpec(name)
    if not (version.isascii() and version.isdecimal()):
        return ModelSpec(name, label=version)
    # Longer numbers are not parsed: int() is slow for very many digits.
    number = int(version) if len(version.lstrip("0")) <= _DIGITS else INT64_MAX + 1
    if number > INT64_MAX:
        raise NotFound(f"version {version[:40]} of {name!r} does not fit into 64 bits")
    return ModelSpec(name, number)


def no_signature(servable: Servable, name: str) -> NotFound:
    """Make the error for a model without the signature that the protocol runs."""
    return NotFound(
        f'model "{servable.name}" version {servable.version} has no signature "{name}", which this'
        f" protocol runs; it has {servable.signature_names}"
    )


def typed_outputs(signature: Signature, names: Sequence[str]) -> dict[str, TensorSpec]:
    """Give the specs of outputs. Raises: InvalidRequest: one is known only when it comes."""
    found = {}
    for name in names:
        spec = signature.outputs.get(name)
        if spec is None or spec.untyped:
            raise InvalidRequest(
                f'output "{name[:200]}" has no type: it can have no classes, and no region'
            )
        found[name] = spec
    return found
