"""Which servable a request of the Open Inference Protocol means, over either interface."""

from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.errors import NotFound
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import ModelSpec
from ie_serving.inference.interface import Api
from ie_serving.models.version.handle import Servable

METHODS: Final[Mapping[Api, str]] = {Api.PREDICT: "ModelInfer", Api.METADATA: "ModelMetadata"}
"""Names of what is counted, in the metrics, whichever interface was asked."""

_DIGITS: Final = len(str(INT64_MAX))


def model_spec(name: str, version: str) -> ModelSpec:
    """Read a version, which is a string in the protocol.

    Args:
        name: of the model.
        version: a number, or a label; empty for the default version.

    Raises:
        NotFound: the number is none of a version.
    """
    if not version:
        return ModelSpec(name)
    if not (version.isascii() and version.isdecimal()):
        return ModelSpec(name, label=version)
    # More digits are not read: int() of very many is slow.
    number = int(version) if len(version.lstrip("0")) <= _DIGITS else INT64_MAX + 1
    if number > INT64_MAX:
        raise NotFound(f"version {version[:40]} of {name!r} does not fit into 64 bits")
    return ModelSpec(name, number)


def no_signature(servable: Servable, name: str) -> NotFound:
    """Phrase that a model lacks the signature which the protocol runs."""
    return NotFound(
        f'model "{servable.name}" version {servable.version} has no signature "{name}", which this'
        f" protocol runs; it has {servable.signature_names}"
    )
