"""Describes one model in full, with the signatures in the form that the page needs."""

from typing import Any, Final

from ie_serving.core.values.tensors import DataType, Method, Signature, TensorSpec
from ie_serving.models.served import Served
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.page.configuration import of_model
from ie_serving.server.fronts.page.state import summary, version_of
from ie_serving.telemetry.log.events import mask
from ie_serving.wire.clients.sample import filled

OPEN_SIZE: Final = 1
"""Size shown for a dimension of any size: one row is the cheapest to try."""
OF_EXAMPLES: Final = (Method.CLASSIFY.value, Method.REGRESS.value)
"""Methods whose requests are Examples if the signature maps features to inputs."""


def described(served: Served) -> dict[str, Any]:
    """Describe one model."""
    available = served.stream.available
    versions = [
        {**version_of(status), **_loaded(available.get(status.version))}
        for status in served.stream.statuses()
    ]
    return {
        **summary(served),
        "base_path": mask(served.config.base_path),
        "versions": versions,
        "configuration": of_model(served.config),
    }


def _loaded(servable: Servable | None) -> dict[str, Any]:
    """Describe facts that only a serving version has."""
    if servable is None:
        return {"signatures": []}
    return {
        "memory": servable.memory,
        "load": dict(servable.load_s),
        "signatures": [_signature(each) for _, each in sorted(servable.signatures.items())],
    }


def _signature(signature: Signature) -> dict[str, Any]:
    examples = signature.examples
    verb = "predict"
    if examples and signature.method in OF_EXAMPLES:
        verb = Method(signature.method).word
    return {
        "name": signature.name,
        "method": signature.method,
        "verb": verb,
        "left_out": signature.left_out,
        "precision": signature.precision,
        "runs_on": signature.runs_on,
        "takes_any": signature.takes_any,
        "features": sorted(examples.features.values()) if examples else [],
        "inputs": [_input(spec, signature) for spec in signature.inputs.values()],
        "outputs": [_tensor(spec) for spec in signature.outputs.values()],
    }


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "dtype": spec.dtype.word,
        "shape": None if spec.shape is None else list(spec.shape),
        "layout": spec.layout,
    }


def _input(spec: TensorSpec, signature: Signature) -> dict[str, Any]:
    sample = filled(spec, OPEN_SIZE)
    return {
        **_tensor(spec),
        "optional": spec.name in signature.defaults,
        "image": spec.image.described() if spec.image else None,
        "takes_files": bool(spec.image) or spec.dtype is DataType.STRING,
        "value": sample.value,
        "sizes": list(sample.sizes),
    }
