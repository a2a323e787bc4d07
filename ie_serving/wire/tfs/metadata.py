"""Encodes GetModelMetadata, as messages and as JSON for REST.

Source: get_model_metadata.proto, and the JSON writers of TensorFlow Serving's HTTP handler: field
names as in the proto, 64-bit integers as strings, every field shown, one space of indentation, and
`signature_def` twice.
"""

import json
from collections.abc import Mapping
from typing import Any

from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.statuses import pretty
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


def metadata_json(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """Write the metadata as JSON, in the layout of TensorFlow Serving: two documents in a third."""
    spec = pretty({"name": name, "signature_name": "", "version": str(version)})
    definitions = {key: _signature_document(each) for key, each in _definitions(signatures).items()}
    inner = pretty({SIGNATURE_DEF: definitions})
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
