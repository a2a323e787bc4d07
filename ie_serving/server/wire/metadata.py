"""Status and signatures, for gRPC and for REST.

Source: get_model_status.proto and get_model_metadata.proto; the JSON is that of TensorFlow
Serving to the byte, indents and doubled `signature_def` included, since clients compare it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from ie_serving.models.stream import VersionStatus
from ie_serving.server.status import Code
from ie_serving.server.wire import messages
from ie_serving.server.wire.messages import Proto
from ie_serving.tensors import Signature, TensorSpec

SIGNATURE_DEF = "signature_def"
"""The only metadata field."""


def status_response(statuses: Iterable[VersionStatus]) -> bytes:
    """Encode a GetModelStatusResponse, in the order given.

    Args:
        statuses: one with an error has the code UNKNOWN, any other OK.
    """
    response = messages.GetModelStatusResponse()
    for status in statuses:
        entry = response.model_version_status.add(version=status.version, state=int(status.state))
        entry.status.error_code = _code(status).number
        entry.status.error_message = status.error
    return bytes(response.SerializeToString())


def status_json(statuses: Iterable[VersionStatus]) -> bytes:
    """Write the same as REST has it."""
    document = {"model_version_status": [_status_object(status) for status in statuses]}
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def _code(status: VersionStatus) -> Code:
    return Code.UNKNOWN if status.error else Code.OK


def _status_object(status: VersionStatus) -> dict[str, object]:
    return {
        "version": str(status.version),
        "state": status.state.name,
        "status": {"error_code": _code(status).name, "error_message": status.error},
    }


def metadata_response(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Encode a GetModelMetadataResponse with all signatures of one version."""
    response = messages.GetModelMetadataResponse()
    response.model_spec.name = name
    response.model_spec.version.value = version
    signature_map = messages.SignatureDefMap()
    for key, signature in signatures.items():
        signature_map.signature_def[key].CopyFrom(signature_def(signature))
    response.metadata[SIGNATURE_DEF].Pack(signature_map)
    return bytes(response.SerializeToString())


def signature_def(signature: Signature) -> Proto:
    """Make the SignatureDef of a signature."""
    definition = messages.SignatureDef(method_name=_method(signature))
    for alias, spec in signature.inputs.items():
        _describe(definition.inputs[alias], spec)
    for alias, spec in signature.outputs.items():
        _describe(definition.outputs[alias], spec)
    return definition


def _method(signature: Signature) -> str:
    """Give the method's plain text; `Method` is a string that `str` and `format` would rename."""
    return str.__str__(signature.method)


def _describe(info: Proto, spec: TensorSpec) -> None:
    info.name = spec.tensor
    info.dtype = spec.dtype.number
    if spec.shape is None:
        info.tensor_shape.unknown_rank = True
        return
    info.tensor_shape.SetInParent()
    for size in spec.shape:
        info.tensor_shape.dim.add(size=size)


_METADATA = """{{
"model_spec":{{
 "name": {name},
 "signature_name": "",
 "version": "{version}"
}}
,
"metadata": {{"signature_def": {signatures}
}}
}}
"""


def metadata_json(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Write name, version and all signatures of one version as REST has them."""
    document = {SIGNATURE_DEF: {key: _signature_object(s) for key, s in signatures.items()}}
    text = _METADATA.format(
        name=json.dumps(name, ensure_ascii=False),
        version=version,
        signatures=json.dumps(document, indent=1, ensure_ascii=False),
    )
    return text.encode()


def _signature_object(signature: Signature) -> dict[str, object]:
    return {
        "inputs": {alias: _tensor_object(spec) for alias, spec in signature.inputs.items()},
        "outputs": {alias: _tensor_object(spec) for alias, spec in signature.outputs.items()},
        "method_name": _method(signature),
        "defaults": {},
    }


def _tensor_object(spec: TensorSpec) -> dict[str, object]:
    sizes: Sequence[int] = spec.shape or ()
    return {
        "dtype": spec.dtype.wire_name,
        "tensor_shape": {
            "dim": [{"size": str(size), "name": ""} for size in sizes],
            "unknown_rank": spec.shape is None,
        },
        "name": spec.tensor,
    }
