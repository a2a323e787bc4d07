"""Encodes GetModelMetadata and GetModelStatus, as messages and as JSON for REST.

Source: get_model_metadata.proto, get_model_status.proto, and the JSON writers of TensorFlow
Serving's HTTP handler: field names as in the protos, 64-bit integers as strings, every field shown,
one space of indentation, and `signature_def` twice.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ie_serving.core.values.codes import Code
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.core.values.versions import VersionStatus
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder, size_of

SIGNATURE_DEF = "signature_def"
"""The one field of metadata there is."""
ANY_TYPE = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
"""Name in JSON of the message that the field holds."""


def metadata_response(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Serialize a GetModelMetadataResponse that holds every signature of a version."""
    response = messages.GetModelMetadataResponse()
    response.model_spec.name = name
    response.model_spec.version.value = version
    # An Any: clients unpack it by the name of its type. Maps are sorted, so that equal metadata has
    # equal bytes.
    response.metadata[SIGNATURE_DEF].Pack(_signature_map(signatures))
    return bytes(response.SerializeToString(deterministic=True))


class StatusEncoder:
    """Encodes the statuses of versions.

    Args of the constructor:
        is_ovms: a version without error or remark has the message "OK", as in OpenVINO Model
            Server; else an empty one, as in TensorFlow Serving and the server of 2020.
    """

    def __init__(self, *, is_ovms: bool = False) -> None:
        self._good = "OK" if is_ovms else ""

    def response(self, statuses: Iterable[VersionStatus]) -> bytes:
        """Serialize a GetModelStatusResponse."""
        response = messages.GetModelStatusResponse()
        for status in statuses:
            shown = response.model_version_status.add(
                version=status.version, state=int(status.state)
            )
            shown.status.error_code = _health(status)
            shown.status.error_message = status.message or self._good
        return bytes(response.SerializeToString())

    def json(self, statuses: Iterable[VersionStatus]) -> bytes:
        """Write the status as JSON."""
        return _pretty(self._versions(statuses)).encode() + b"\n"

    def json_of_all(self, models: Mapping[str, Iterable[VersionStatus]]) -> bytes:
        """Write the status of each model by its name, as OpenVINO Model Server's Config Status API.

        On one line: those of a thousand models hold the event loop for 3 ms, and indented for 14.
        """
        shown = {name: self._versions(statuses) for name, statuses in models.items()}
        return json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def _versions(self, statuses: Iterable[VersionStatus]) -> dict[str, Any]:
        shown = [
            {
                "version": str(status.version),
                "state": status.state.name,
                "status": {
                    "error_code": _health(status).name,
                    "error_message": status.message or self._good,
                },
            }
            for status in statuses
        ]
        return {"model_version_status": shown}


def metadata_json(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Write the metadata as JSON, in the layout of TensorFlow Serving: two documents in a third."""
    spec = _pretty({"name": name, "signature_name": "", "version": str(version)})
    definitions = {key: _signature_document(each) for key, each in _definitions(signatures).items()}
    inner = _pretty({SIGNATURE_DEF: definitions})
    return (
        f'{{\n"model_spec":{spec}\n,\n"metadata": {{"{SIGNATURE_DEF}": {inner}\n}}\n}}\n'
    ).encode()


def message_json(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Write the metadata as protobuf's own JSON of GetModelMetadataResponse.

    The servers of 2020 and OpenVINO Model Server, and their clients, use this form: names in camel
    case, without default values.
    """
    definitions = {key: _in_camel_case(each) for key, each in _definitions(signatures).items()}
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
    for name, definition in _definitions(signatures).items():
        signature_map.signature_def[name].CopyFrom(definition)
    return signature_map


def _definitions(signatures: Mapping[str, Signature]) -> dict[str, Proto]:
    """Give a SignatureDef for each signature, sorted by name."""
    return {name: _definition(signature) for name, signature in sorted(signatures.items())}


def _definition(signature: Signature) -> Proto:
    if signature.definition:
        return messages.SignatureDef.FromString(signature.definition)
    definition = messages.SignatureDef(method_name=signature.method)
    for specs, infos in (
        (signature.inputs, definition.inputs),
        (signature.outputs, definition.outputs),
    ):
        for alias, spec in specs.items():
            _fill(infos[alias], spec)
    for alias, value in signature.defaults.items():
        definition.defaults[alias].ParseFromString(_encoded(signature.inputs[alias].dtype, value))
    return definition


def _encoded(dtype: DataType, value: Array) -> bytes:
    encoder = TensorEncoder(dtype, tensor_content=False)
    body = encoder.body(value)
    return encoder.head(value.shape, size_of(body)) + bytes(body)


def _fill(info: Proto, spec: TensorSpec) -> None:
    info.name = spec.tensor
    info.dtype = spec.dtype.number
    if spec.shape is None:
        info.tensor_shape.unknown_rank = True
        return
    info.tensor_shape.SetInParent()  # a scalar has a shape without dimensions, not no shape
    for size in spec.shape:
        info.tensor_shape.dim.add(size=size)


def _signature_document(definition: Proto) -> dict[str, Any]:
    return {
        "inputs": {alias: _info(info) for alias, info in sorted(definition.inputs.items())},
        "outputs": {alias: _info(info) for alias, info in sorted(definition.outputs.items())},
        "method_name": definition.method_name,
        "defaults": {
            alias: {**_every_field(value), **_shape(value)}
            for alias, value in sorted(definition.defaults.items())
        },
    }


def _info(info: Proto) -> dict[str, Any]:
    fields = _every_field(info)
    # TensorFlow Serving writes fields of a oneof, such as the name, last.
    encoding: dict[str, Any] = {key: fields[key] for key in ("name", "coo_sparse") if key in fields}
    return {"dtype": fields["dtype"], **_shape(info), **encoding}


def _shape(message: Proto) -> dict[str, Any]:
    if not message.HasField("tensor_shape"):
        return {}
    shape = message.tensor_shape
    dims = [{"size": str(dim.size), "name": dim.name} for dim in shape.dim]
    return {"tensor_shape": {"dim": dims, "unknown_rank": shape.unknown_rank}}


def _every_field(message: Proto) -> dict[str, Any]:
    """Give a message as JSON with its fields in the order in which the proto declares them."""
    from google.protobuf.json_format import MessageToDict  # here: a start does without it

    shown = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    names = (field.name for field in message.DESCRIPTOR.fields)
    return {name: shown[name] for name in names if name in shown}


def _in_camel_case(definition: Proto) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    shown = MessageToDict(definition)
    # protobuf's maps have no order of their own.
    for key in shown.keys() & {"inputs", "outputs", "defaults"}:
        shown[key] = dict(sorted(shown[key].items()))
    return shown


def _unless_empty(key: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 (a part of JSON)
    return {key: value} if value else {}


FORMS = {"camel": message_json, "snake": metadata_json}
"""Functions that write metadata for REST, by the word of the setting."""
