"""GetModelMetadata and GetModelStatus, as messages and as the JSON that REST clients see.

Source: get_model_metadata.proto, get_model_status.proto, and the JSON writers of TensorFlow
Serving's HTTP handler: field names as in the protos, 64-bit integers as strings, every field shown,
one space of indentation, and `signature_def` twice.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ie_serving.core.codes import Code
from ie_serving.core.tensors import Signature, TensorSpec
from ie_serving.core.versions import VersionStatus
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

SIGNATURE_DEF = "signature_def"
"""The one field of metadata there is."""
ANY_TYPE = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
"""How JSON names the message that the field holds."""


def metadata_response(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Serialize a GetModelMetadataResponse that holds every signature of a version."""
    response = messages.GetModelMetadataResponse()
    response.model_spec.name = name
    response.model_spec.version.value = version
    # An Any: clients unpack it by the name of its type. Maps are sorted, so that equal metadata has
    # equal bytes.
    response.metadata[SIGNATURE_DEF].Pack(_signature_map(signatures))
    return bytes(response.SerializeToString(deterministic=True))


def status_response(statuses: Iterable[VersionStatus]) -> bytes:
    """Serialize a GetModelStatusResponse."""
    response = messages.GetModelStatusResponse()
    for status in statuses:
        shown = response.model_version_status.add(version=status.version, state=int(status.state))
        shown.status.error_code = _health(status)
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


def message_json(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Write the metadata as protobuf's own JSON of GetModelMetadataResponse.

    The servers of 2020 and OpenVINO Model Server, and their clients, have this form: names in camel
    case, and what has its default left out.
    """
    definitions = {key: _in_camel_case(each) for key, each in sorted(signatures.items())}
    held = {"@type": ANY_TYPE, **_unless_empty("signatureDef", definitions)}
    spec = {**_unless_empty("name", name), "version": str(version)}
    document = {"modelSpec": spec, "metadata": {SIGNATURE_DEF: held}}
    return json.dumps(document, indent=2).encode()


# TensorFlow Serving answers with the code of the status that ended the load; clients tell failure
# from success by it, and the cause is in the text.
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
    info.tensor_shape.SetInParent()  # a scalar has a shape without dimensions, not no shape
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


def _in_camel_case(signature: Signature) -> dict[str, Any]:
    inputs = {alias: _camel_case_info(spec) for alias, spec in sorted(signature.inputs.items())}
    outputs = {alias: _camel_case_info(spec) for alias, spec in sorted(signature.outputs.items())}
    return {
        **_unless_empty("inputs", inputs),
        **_unless_empty("outputs", outputs),
        **_unless_empty("methodName", signature.method),
    }


def _camel_case_info(spec: TensorSpec) -> dict[str, Any]:
    # A size of 0 is a default too: its dimension is an empty object.
    dims = [_unless_empty("size", str(size) if size else "") for size in spec.shape or ()]
    unknown = {"unknownRank": True} if spec.shape is None else {}
    return {
        "name": spec.tensor,  # one of a oneof, which is shown even when it is empty
        "dtype": spec.dtype.wire_name,
        "tensorShape": {**_unless_empty("dim", dims), **unknown},
    }


def _unless_empty(key: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 (a part of JSON)
    return {key: value} if value else {}
