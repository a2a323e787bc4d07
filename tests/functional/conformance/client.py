"""Sends a row with the real clients and compares what comes back."""

import http.client
import json
from typing import Any

import grpc
from google.protobuf import text_format
from google.protobuf.message import Message
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.functional.conformance.case import Reload, Rest, Rpc
from tests.functional.conformance.messages import model_spec
from tests.functional.servers import Server
from tests.process import PATIENCE_S

OPEN_INFERENCE = "inference"
"""Stands for Triton's own stub."""
STREAM = "ModelStreamInfer"
MESSAGES: dict[str, tuple[str, type[Message], type[Message]]] = {
    "Predict": ("prediction", predict_pb2.PredictRequest, predict_pb2.PredictResponse),
    "Classify": (
        "prediction",
        classification_pb2.ClassificationRequest,
        classification_pb2.ClassificationResponse,
    ),
    "Regress": (
        "prediction",
        regression_pb2.RegressionRequest,
        regression_pb2.RegressionResponse,
    ),
    "MultiInference": (
        "prediction",
        inference_pb2.MultiInferenceRequest,
        inference_pb2.MultiInferenceResponse,
    ),
    "GetModelMetadata": (
        "prediction",
        get_model_metadata_pb2.GetModelMetadataRequest,
        get_model_metadata_pb2.GetModelMetadataResponse,
    ),
    "GetModelStatus": (
        "model",
        get_model_status_pb2.GetModelStatusRequest,
        get_model_status_pb2.GetModelStatusResponse,
    ),
    "HandleReloadConfigRequest": (
        "model",
        model_management_pb2.ReloadConfigRequest,
        model_management_pb2.ReloadConfigResponse,
    ),
    STREAM: (OPEN_INFERENCE, service_pb2.ModelInferRequest, service_pb2.ModelStreamInferResponse),
    **{
        name: (
            OPEN_INFERENCE,
            getattr(service_pb2, f"{name}Request"),
            getattr(service_pb2, f"{name}Response"),
        )
        for name in (
            *("ModelInfer", "ModelMetadata", "ModelReady", "RepositoryIndex"),
            *("RepositoryModelLoad", "RepositoryModelUnload"),
            *(f"SystemSharedMemory{each}" for each in ("Status", "Register", "Unregister")),
        )
    },
}
"""By method: the stub of `Server`, the request, the response."""


RELOADS = "HandleReloadConfigRequest"


def call(server: Server, method: str, request: str) -> tuple[str, str, Message | None]:
    """Call a method; return the code, the error's text, and the response if there is one."""
    if method not in MESSAGES:
        send: Any = server.channel.unary_unary(f"/{method}")
        message: Any = request.encode()
    else:
        stub, kind, _ = MESSAGES[method]
        own = service_pb2_grpc.GRPCInferenceServiceStub
        stubs = own(server.channel) if stub == OPEN_INFERENCE else getattr(server, stub)
        send = getattr(stubs, method)
        message = text_format.Parse(request, kind())
    if method == STREAM:
        # One request, and the only reply.
        return "OK", "", next(send(iter([message]), PATIENCE_S))
    try:
        return "OK", "", send(message, PATIENCE_S)
    except grpc.RpcError as error:
        return error.code().name, error.details(), None


def check_rpc(server: Server, case: Rpc) -> str:
    """Send a row and compare the answer; give the error's text, empty if there is none."""
    code, text, response = call(server, case.method, case.request)
    assert (code, text if code != "OK" else "") == (case.code, text if code != "OK" else ""), text
    shown = text if response is None else text_format.MessageToString(response, as_one_line=True)
    assert case.phrase in shown
    if case.reply:
        assert response is not None
        expected = text_format.Parse(case.reply, MESSAGES[case.method][2]())
        assert _bytes(response) == _bytes(expected), shown
    return text


def check_reload(server: Server, case: Reload) -> str:
    """See `check_rpc`."""
    code, text, _ = call(server, RELOADS, case.request)
    assert code == case.code, text
    assert case.phrase in text
    for name in case.serves:
        assert _serves(server, name), f"{name} does not serve"
    for name in case.gone:
        assert not _serves(server, name), f"{name} serves"
    return text


def _serves(server: Server, name: str) -> bool:
    """Ask for the metadata of `model`, `model/version` or `model:label`."""
    model, version, number = name.partition("/")
    model, labelled, label = model.partition(":")
    spec = model_spec(model, int(number) if version else label if labelled else None)
    code, text, _ = call(server, "GetModelMetadata", f'{spec} metadata_field: "signature_def"')
    assert code in ("OK", "NOT_FOUND", "INVALID_ARGUMENT"), text
    return code == "OK"


def _bytes(message: Message) -> bytes:
    """Compare as bytes: a NaN equals itself there."""
    return message.SerializeToString(deterministic=True)


def check_rest(server: Server, case: Rest) -> str:
    """See `check_rpc`."""
    code, headers, body = request(server, case)
    text = body.decode("utf-8", "replace")
    assert code == case.code, text
    assert case.phrase in text
    if case.reply is not None:
        assert text == case.reply
    for name, value in case.reply_headers.items():
        assert headers.get(name, "") == value
    is_error = code >= http.client.BAD_REQUEST and text[:1] == "{"
    return str(json.loads(text, strict=False)["error"]) if is_error else ""


def request(server: Server, case: Rest) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Send the request line, headers and body exactly as the row has them."""
    body = case.body if isinstance(case.body, bytes) else case.body.encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=PATIENCE_S)
    try:
        connection.putrequest(case.method, case.target, skip_accept_encoding=True)
        for name, value in case.headers.items():
            connection.putheader(name, value)
        if body or case.method == "POST":
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        connection.close()
