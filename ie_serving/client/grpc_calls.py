"""The calls over gRPC. Arrays are encoded and decoded by the server's own codecs."""

from google.protobuf.json_format import MessageToDict

from ie_serving.client.calls import (
    CallHeaders,
    CallOutputs,
    ClientCall,
    Inputs,
    ModelAddress,
    Signatures,
    VersionStatus,
    check,
    typed,
)
from ie_serving.core.values.tensors import Signature
from ie_serving.wire.clients.served_signatures import signatures_in
from ie_serving.wire.kserve.contents import decode_contents
from ie_serving.wire.kserve.datatypes import NAME_OF, datatype
from ie_serving.wire.kserve.raw import decode_raw, encode_raw
from ie_serving.wire.protobuf import inference_messages, messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder, size_of
from ie_serving.wire.tfs.tensor_proto import decode_tensor

_PREDICTION, _MODEL = "/tensorflow.serving.PredictionService/", "/tensorflow.serving.ModelService/"
_INFERENCE = "/inference.GRPCInferenceService/"


class GrpcCalls:
    """Every tensor on the wire says its dtype, so `predict` needs no signature."""

    def predict(
        self, which: ModelAddress, inputs: Inputs, _: Signature | None
    ) -> ClientCall[CallOutputs]:
        """Make a PredictRequest."""
        request = messages.PredictRequest(model_spec=_spec(which))
        request.model_spec.signature_name = which.signature
        for name, value in inputs.items():
            array, dtype = typed(name, value)
            encoder = TensorEncoder(dtype, tensor_content=True)
            body = encoder.body(array)
            head = encoder.head(array.shape, size_of(body))
            request.inputs[name].ParseFromString(head + bytes(body))
        return ClientCall(f"{_PREDICTION}Predict", _read_predict, request.SerializeToString())

    def infer(self, which: ModelAddress, inputs: Inputs) -> ClientCall[CallOutputs]:
        """Make a ModelInferRequest with raw contents."""
        check(which)
        version = "" if which.version is None else str(which.version)
        request = inference_messages.ModelInferRequest(
            model_name=which.model, model_version=version
        )
        for name, value in inputs.items():
            array, dtype = typed(name, value)
            request.inputs.add(name=name, datatype=NAME_OF[dtype], shape=array.shape)
            request.raw_input_contents.append(bytes(encode_raw(array, dtype)))
        return ClientCall(f"{_INFERENCE}ModelInfer", _read_infer, request.SerializeToString())

    def metadata(self, which: ModelAddress) -> ClientCall[Signatures]:
        """Make a GetModelMetadataRequest."""
        request = messages.GetModelMetadataRequest(
            model_spec=_spec(which), metadata_field=["signature_def"]
        )
        payload = request.SerializeToString()
        return ClientCall(f"{_PREDICTION}GetModelMetadata", _read_metadata, payload)

    def status(self, which: ModelAddress) -> ClientCall[list[VersionStatus]]:
        """Make a GetModelStatusRequest."""
        request = messages.GetModelStatusRequest(model_spec=_spec(which))
        return ClientCall(f"{_MODEL}GetModelStatus", _read_status, request.SerializeToString())


def _spec(which: ModelAddress) -> Proto:
    check(which)
    spec = messages.ModelSpec(name=which.model)
    if which.version is not None:
        spec.version.value = which.version
    elif which.label:
        spec.version_label = which.label
    return spec


def _read_predict(body: bytes, _: CallHeaders) -> CallOutputs:
    response = messages.PredictResponse.FromString(body)
    return {name: decode_tensor(each, name) for name, each in response.outputs.items()}


def _read_infer(body: bytes, _: CallHeaders) -> CallOutputs:
    response = inference_messages.ModelInferResponse.FromString(body)
    raws, found = response.raw_output_contents, {}
    for index, each in enumerate(response.outputs):
        dtype, shape = datatype(each.datatype, each.name), tuple(each.shape)
        if raws:
            found[each.name] = decode_raw(raws[index], dtype, shape, each.name)
        else:
            found[each.name] = decode_contents(each.contents, dtype, shape, each.name)
    return found


def _read_metadata(body: bytes, _: CallHeaders) -> Signatures:
    response = messages.GetModelMetadataResponse.FromString(body)
    held = messages.SignatureDefMap()
    response.metadata["signature_def"].Unpack(held)
    return signatures_in(MessageToDict(held))


def _read_status(body: bytes, _: CallHeaders) -> list[VersionStatus]:
    found = messages.GetModelStatusResponse.FromString(body).model_version_status
    return [
        VersionStatus(each.version, each.State.Name(each.state), each.status.error_message)
        for each in found
    ]
