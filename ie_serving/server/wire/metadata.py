"""GetModelMetadata and GetModelStatus, as messages and as the JSON that REST clients see.

Source: get_model_metadata.proto, get_model_status.proto, and the JSON writers of TensorFlow
Serving's HTTP handler: field names as in the protos, 64-bit integers as strings, every field shown,
one space of indentation, and `signature_def` twice.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ie_serving.models.stream import VersionStatus
from ie_serving.server.status import Code
from ie_serving.server.wire import messages
from ie_serving.server.wire.messages import Proto
from ie_serving.tensors import Signature, TensorSpec

SIGNATURE_DEF = "signature_def"
"""The one field of metadata there is."""


def metadata_response(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Serialize a GetModelMetadataResponse that holds every signature of a version."""
    response = messages.GetModelMetadataResponse()
    response.model_spec.name = name
    response.model_spec.version.value = version
    response.metadata[SIGNATURE_DEF].Pack(_signature_map(signatures))
    return bytes(response.SerializeToString(deterministic=True))


def status_response(statuses: Iterable[VersionStatus]) -> bytes:
    """Serialize a GetModelStatusResponse."""
    response = messages.GetModelStatusResponse()
    for status in statuses:
        shown = response.model_version_status.add(version=status.version, state=int(status.state))
        shown.status.error_code = _health(status).number
        shown.status.error_message = status.error
    return bytes(response.SerializeToString())


def status_json(statuses: Iterable[VersionStatus]) -> bytes:
    """Write the status as JSON."""
    shown = [
        {
            "version": str(status.version),
            "state": status.state.name,
            "status": {"error_code": _health(status).name, "error_message": status.error},
        }
        for status in statuses
    ]
    return _pretty({"model_version_status": shown}).encode() + b"\n"


def metadata_json(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Write the metadata as JSON, in the layout of TensorFlow Serving: two documents in a third."""
    spec = _pretty({"name": name, "signature_name": "", "version": str(version)})
    definitions = {key: _definition(signature) for key, signature in sorted(signatures.items())}
    inner = _pretty({SIGNATURE_DEF: definitions})
    return (
        f'{{\n"model_spec":{spec}\n,\n"metadata": {{"{SIGNATURE_DEF}": {inner}\n}}\n}}\n'
    ).encode()


def _health(status: VersionStatus) -> Code:
    return Code.UNKNOWN if status.error else Code.OK


def _pretty(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _signature_map(signatures: Mapping[str, Signature]) -> Proto:
    signature_map = messages.SignatureDefMap()
    for name, signature in signatures.items():
        definition = signature_map.signature_def[name]
        definition.method_name = signature.method
        for specs, infos in (
            (signature.inputs, definition.inputs),
            (signature.outputs, definition.outputs),
        ):
            for alias, spec in specs.items():
                _fill(infos[alias], spec)
    return signature_map


def _fill(info: Proto, spec: TensorSpec) -> None:
    info.name = spec.tensor
    info.dtype = spec.dtype.number
    if spec.shape is None:
        info.tensor_shape.unknown_rank = True
        return
    info.tensor_shape.SetInParent()
    for size in spec.shape:
        info.tensor_shape.dim.add(size=size)


def _definition(signature: Signature) -> dict[str, Any]:
    return {
        "inputs": {alias: _info(spec) for alias, spec in sorted(signature.inputs.items())},
        "outputs": {alias: _info(spec) for alias, spec in sorted(signature.outputs.items())},
        "method_name": signature.method,
        "defaults": {},
    }


def _info(spec: TensorSpec) -> dict[str, Any]:
    dims = [{"size": str(size), "name": ""} for size in spec.shape or ()]
    return {
        "dtype": spec.dtype.wire_name,
        "tensor_shape": {"dim": dims, "unknown_rank": spec.shape is None},
        "name": spec.tensor,
    }
