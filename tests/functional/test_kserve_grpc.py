"""The Open Inference Protocol v2 over gRPC: a real server, Triton's own client."""

import queue
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from tests.functional.servers import SAMPLE_FLAGS, Server, rpc_refused
from tests.process import PATIENCE_S

SERVICE = "inference.GRPCInferenceService"
ROWS_OF_8_MB = 8 * 1024 * 1024 // (64 * 4)
Refused = InferenceServerException


@pytest.fixture(scope="module", params=["http2", "grpcio"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(
        "ie_serving", "model", *SAMPLE_FLAGS, f"--grpc_transport={request.param}"
    ) as server:
        yield server.ready()


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with closing(triton.InferenceServerClient(f"127.0.0.1:{server.port}")) as client:
        yield client


def pixels(rows: int = 1) -> Any:
    return (np.arange(rows * 64, dtype=np.float32) % 17).reshape(rows, 64)


def image(rows: int = 1, **parameters: Any) -> Any:
    given = triton.InferInput("image", [rows, 64], "FP32")
    given.set_data_from_numpy(pixels(rows))
    for name, value in parameters.items():
        given._input.parameters[name].string_param = value
    return given


def typed() -> service_pb2.ModelInferRequest:
    """As clients send it that do not know raw contents."""
    request = service_pb2.ModelInferRequest(model_name="digits")
    tensor = request.inputs.add(name="image", datatype="FP32", shape=[1, 64])
    tensor.contents.fp32_contents.extend(pixels().ravel().tolist())
    return request


def infer(server: Server, request: bytes) -> service_pb2.ModelInferResponse:
    call = server.channel.unary_unary(f"/{SERVICE}/ModelInfer")
    return service_pb2.ModelInferResponse.FromString(call(request, timeout=PATIENCE_S))


def test_the_server_and_its_model_tell_whether_they_are_ready(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "2")
    assert not client.is_model_ready("digits", "7")
    assert not client.is_model_ready("digits", "no-label")
    assert not client.is_model_ready("none")
    assert client.get_server_metadata().name == "ie_serving"


def test_metadata_describe_a_version(client: Any) -> None:
    told = client.get_model_metadata("digits", "2")
    assert (told.name, list(told.versions)) == ("digits", ["2"])
    assert [(each.name, each.datatype, list(each.shape)) for each in told.inputs] == [
        ("image", "FP32", [-1, 64])
    ]
    assert {each.name: each.datatype for each in told.outputs} == {
        "probabilities": "FP32",
        "digit": "INT32",
    }
    with pytest.raises(Refused, match="NOT_FOUND"):
        client.get_model_metadata("none")


@pytest.mark.parametrize("rows", [1, 100, ROWS_OF_8_MB])
def test_an_inference_answers_as_predict_does(client: Any, server: Server, rows: int) -> None:
    """Again and again: the third of its kind is read another way, see `Layout`."""
    body = {"inputs": pixels(rows).tolist()} if rows <= 100 else None
    for number in range(4):
        reply = client.infer("digits", [image(rows)], request_id=f"request {number}")
        response = reply.get_response()
        assert response.model_name == "digits"
        assert response.model_version == "2"
        assert response.id == f"request {number}"
        assert len(response.raw_output_contents) == 2
        assert reply.as_numpy("probabilities").shape == (rows, 10)
        if body:
            expected = server.rest.post("/v1/models/digits:predict", json=body).json()["outputs"]
            assert reply.as_numpy("digit").tolist() == expected["digit"]


@pytest.mark.parametrize("version", ["", "2"])
def test_only_requested_outputs_are_answered(client: Any, version: str) -> None:
    wanted = [triton.InferRequestedOutput("digit")]
    for _ in range(3):
        reply = client.infer("digits", [image()], outputs=wanted, model_version=version)
        assert [each.name for each in reply.get_response().outputs] == ["digit"]


def test_typed_contents_are_answered_typed(server: Server) -> None:
    expected: Any = None
    for number in range(4):
        request = typed()
        request.id = str(number)
        reply = infer(server, request.SerializeToString())
        assert reply.id == str(number)
        assert not reply.raw_output_contents
        outputs = {each.name: each for each in reply.outputs}
        assert list(outputs["probabilities"].shape) == [1, 10]
        assert len(outputs["probabilities"].contents.fp32_contents) == 10
        expected = expected or list(outputs["digit"].contents.int_contents)
        assert list(outputs["digit"].contents.int_contents) == expected


def test_a_stream(client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number in range(20):
        client.async_stream_infer("digits", [image(1 + number)], request_id=str(number))
    for number in range(20):
        result, error = answers.get(timeout=PATIENCE_S)
        assert error is None
        assert result.get_response().id == str(number)
        assert result.as_numpy("digit").shape == (1 + number,)
    client.async_stream_infer("digits", [triton.InferInput("other", [1], "FP32")], request_id="bad")
    _, error = answers.get(timeout=PATIENCE_S)
    assert "input" in str(error)
    client.async_stream_infer("digits", [image()])
    assert answers.get(timeout=PATIENCE_S)[1] is None
    client.stop_stream()


def test_a_request_ends_at_its_deadline(client: Any) -> None:
    with pytest.raises(Refused, match="Deadline Exceeded"):
        client.infer("digits", [image(ROWS_OF_8_MB)], client_timeout=0.001)


def test_a_method_that_is_not_served_is_unimplemented(client: Any) -> None:
    with pytest.raises(Refused, match=r"UNIMPLEMENTED.*Method not found!"):
        client.register_cuda_shared_memory("r", b"AAAA", 0, 16)


def test_parameters_that_would_change_the_answer_are_refused(client: Any) -> None:
    elsewhere = triton.InferInput("image", [1, 64], "FP32")
    elsewhere.set_shared_memory("r", 256)
    with pytest.raises(Refused, match=r"UNIMPLEMENTED.*--shared_memory true"):
        client.infer("digits", [elsewhere])
    with pytest.raises(Refused, match=r"INVALID_ARGUMENT.*this one keeps none"):
        client.infer("digits", [image()], sequence_id=7, sequence_start=True)


def _shape(*sizes: int) -> Any:
    def change(request: service_pb2.ModelInferRequest) -> None:
        request.inputs[0].shape[:] = sizes

    return change


def _raw(*contents: bytes) -> Any:
    def change(request: service_pb2.ModelInferRequest) -> None:
        request.inputs[0].ClearField("contents")
        request.raw_input_contents.extend(contents)

    return change


def _datatype(word: str) -> Any:
    def change(request: service_pb2.ModelInferRequest) -> None:
        request.inputs[0].datatype = word

    return change


def _again(request: service_pb2.ModelInferRequest) -> None:
    request.inputs.append(request.inputs[0])


def _other(request: service_pb2.ModelInferRequest) -> None:
    request.inputs[0].name = "picture"


def _none(request: service_pb2.ModelInferRequest) -> None:
    request.ClearField("inputs")


def _nameless(request: service_pb2.ModelInferRequest) -> None:
    request.model_name = ""


def _both(request: service_pb2.ModelInferRequest) -> None:
    request.raw_input_contents.append(pixels().tobytes())


def _in_other_list(request: service_pb2.ModelInferRequest) -> None:
    request.inputs[0].contents.int_contents.append(1)


ODD = [
    pytest.param(
        _raw(b"\0" * 255), "has 255 bytes; FP32 of shape [1, 64] takes 256", id="raw size"
    ),
    pytest.param(
        _raw(b"", b""), "raw_input_contents has 2 entries, and there are 1", id="raw count"
    ),
    pytest.param(_both, "has both contents and raw_input_contents", id="raw and typed"),
    pytest.param(_shape(-1, 64), "the actual size, 0 or more", id="negative shape"),
    pytest.param(_shape(1, 63), "has 64 values in fp32_contents; FP32 of", id="too many values"),
    pytest.param(_shape(2**62, 2**62), "has 64 values in fp32_contents", id="overflow"),
    pytest.param(_shape(*[1] * 33), "33 dimensions; at most 32", id="many dimensions"),
    pytest.param(_datatype("FP31"), '"FP31"; expected one of FP32, FP64', id="unknown datatype"),
    pytest.param(_datatype("FP16"), "send it in raw_input_contents", id="FP16 typed"),
    pytest.param(_datatype("INT64"), "belong in int64_contents", id="wrong list"),
    pytest.param(_datatype("BYTES"), "BYTES; the model expects FP32", id="wrong datatype"),
    pytest.param(_in_other_list, "has values in int_contents", id="values in two lists"),
    pytest.param(_again, 'input "image" is there more than once', id="an input twice"),
    pytest.param(_other, "Missing but required: {image}", id="a misnamed input"),
    pytest.param(_none, "Missing but required: {image}", id="no input"),
    pytest.param(_nameless, "set model_name", id="no model"),
]


@pytest.mark.parametrize(("change", "text"), ODD)
def test_odd_requests_are_refused(server: Server, change: Any, text: str) -> None:
    """Three times: those that a parser has seen before are refused alike."""
    request = typed()
    change(request)
    for _ in range(3):
        with rpc_refused("INVALID_ARGUMENT", text):
            infer(server, request.SerializeToString())


def test_bytes_that_are_no_message_are_refused(server: Server) -> None:
    for payload in (b"\xff", b"\n\5di", b"\x2a\x7f" * 100):
        with rpc_refused("INVALID_ARGUMENT"):
            infer(server, payload)


def test_reflection_and_health_name_the_service(server: Server) -> None:
    database = ProtoReflectionDescriptorDatabase(server.channel)
    assert SERVICE in database.get_services()
    file = database.FindFileContainingSymbol(SERVICE)
    assert "ModelInfer" in {method.name for method in file.service[0].method}
    asked = health_pb2.HealthCheckRequest(service=SERVICE)
    health = health_pb2_grpc.HealthStub(server.channel)
    assert health.Check(asked, timeout=PATIENCE_S).status == health_pb2.HealthCheckResponse.SERVING


def test_metrics_tell_the_protocols_apart(client: Any, server: Server) -> None:
    client.infer("digits", [image()])
    page = server.rest.get("/metrics").text
    lines = page.splitlines()
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines), "a series is there twice"
    assert 'interface="gRPC",method="ModelInfer",code="OK"' in page
    assert 'ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer"' in page


def test_statistics_are_those_of_the_requests(server: Server, client: Any) -> None:
    """As Triton's perf_analyzer reads them: before and after."""

    def told() -> Any:
        (found,) = client.get_inference_statistics("digits").model_stats
        assert (found.name, found.version) == ("digits", "2")
        return found

    before = told()
    for _ in range(3):
        client.infer("digits", [image()])
    with pytest.raises(Refused):
        client.infer("digits", [triton.InferInput("image", [1, 3], "FP32")])
    after = told()
    assert after.inference_count == before.inference_count + 3
    assert after.execution_count == before.execution_count + 3
    for name in ("success", "compute_input", "compute_infer", "compute_output"):
        first, last = (getattr(each.inference_stats, name) for each in (before, after))
        assert (last.count, last.ns > first.ns) == (first.count + 3, True), name
    assert client.get_inference_statistics("digits", "2").model_stats[0] == told()
    assert [each.name for each in client.get_inference_statistics().model_stats] == ["digits"]
    with pytest.raises(Refused, match="NOT_FOUND"):
        client.get_inference_statistics("none")
    with pytest.raises(Refused, match="NOT_FOUND"):
        client.get_inference_statistics("digits", "99")
    page = server.rest.get("/metrics").text
    assert ':tensorflow:serving:request_count{model_name="digits",status="NOT_FOUND"} 1' in page
