"""Sends a Predict over gRPC, made from arrays or JSON by the dtypes of the model's metadata."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.json_format import MessageToDict

from ie_serving.commands.remote.failures import CommandMisused
from ie_serving.commands.remote.given_request import GivenRequest
from ie_serving.commands.remote.rpc import PREDICTION, GrpcPort
from ie_serving.commands.remote.server_address import ServerAddress
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec, specs_of
from ie_serving.wire.json.request import Format, parse_predict
from ie_serving.wire.json.response import encode_predictions
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.prediction_log import put_tensors
from ie_serving.wire.tfs.tensor_proto import decode_tensor

NamedArrays: TypeAlias = dict[str, Array]
ChooseSignature = Callable[[ServerAddress, Mapping[str, Any], str], Signature]
"""Picks a signature by its name from metadata. Raises CommandFailure."""


def ask(
    given: argparse.Namespace,
    address: ServerAddress,
    asked: GivenRequest,
    choose: ChooseSignature,
    *,
    as_json: bool,
) -> bytes | NamedArrays:
    """Send one request; give its reply as JSON, or as arrays.

    Raises:
        CommandFailure: the server does not answer, or the request has no form over gRPC.
        ServingError: the request does not fit the model.
    """
    with GrpcPort(address) as rpc:
        spec = _spec(given)
        name = given.signature
        body = None if asked.body is None else parse_predict(asked.body)
        name = name or (body.signature_name if body else "")
        signature = choose(address, _metadata(rpc, spec), name)
        form = Format.COLUMN
        if asked.image:
            # The request has row format, so that the reply has the form of JSON's.
            form, (named, data) = Format.ROW, asked.image
            inputs = {_input(named, signature): np.array([data], object)}
        elif body is None:
            inputs = _by_input(asked.arrays, signature)
        else:
            inputs, form = body.decode(signature)
        request = _request(spec, signature, inputs)
        reply = rpc.call(PREDICTION, "Predict", request, messages.PredictResponse)
    outputs = {name: decode_tensor(tensor, name) for name, tensor in sorted(reply.outputs.items())}
    if not as_json:
        return outputs
    return bytes(encode_predictions(outputs, form, {**specs_of(outputs), **signature.outputs}))


def _spec(given: argparse.Namespace) -> Proto:
    spec = messages.ModelSpec(name=given.model_name)
    if given.version is not None:
        spec.version.value = given.version
    elif given.label:
        spec.version_label = given.label
    return spec


def _metadata(rpc: GrpcPort, spec: Proto) -> Mapping[str, Any]:
    request = messages.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
    kind = messages.GetModelMetadataResponse
    reply = rpc.call(PREDICTION, "GetModelMetadata", request, kind)
    held = messages.SignatureDefMap()
    reply.metadata["signature_def"].Unpack(held)
    return {"signature_def": MessageToDict(held)}


def _by_input(arrays: Mapping[str, Array], signature: Signature) -> NamedArrays:
    """Give arrays by input, each as the dtype of its input. Raises: CommandMisused."""
    named = {_input(name, signature): array for name, array in arrays.items()}
    return {name: _cast(array, signature.inputs[name]) for name, array in named.items()}


def _input(name: str, signature: Signature) -> str:
    """Give the name of an input; for the empty name, the only input's. Raises: CommandMisused."""
    specs = signature.inputs
    if name in specs:
        return name
    if not name and len(specs) == 1:
        return next(iter(specs))
    if name:
        raise CommandMisused(f"the model has no input {name}; it has {', '.join(specs)}")
    raise CommandMisused(f"the model has the inputs {', '.join(specs)}: choose one by --input")


def _cast(array: Array, spec: TensorSpec) -> Array:
    if spec.dtype is DataType.STRING:
        return np.array(
            [value if isinstance(value, bytes) else str(value).encode() for value in array.flat],
            object,
        ).reshape(array.shape)
    wanted = spec.dtype.numpy
    if array.dtype == wanted:
        return array
    found = array.astype(wanted) if array.dtype.kind in "fiub" else None
    # Floats may lose digits, as in JSON; any other change of a value is an error.
    if found is None or (wanted.kind != "f" and not np.array_equal(found, array)):
        raise CommandMisused(
            f'input "{spec.name}" takes {spec.dtype.word}; the array is {array.dtype} and has'
            " values that are none"
        )
    return found


def _request(spec: Proto, signature: Signature, inputs: Mapping[str, Array]) -> Proto:
    request = messages.PredictRequest(model_spec=spec)
    request.model_spec.signature_name = signature.name
    put_tensors(request.inputs, inputs, signature.inputs)
    return request
