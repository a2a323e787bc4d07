"""The Open Inference Protocol v2 over REST, asked by Triton's own client and by hand."""

import gzip
import json
import shutil
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from ie_serving import __version__
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.kserve.datatypes import NAME_OF
from tests.functional.servers import SAMPLE, Server, config_flag

HEADER = "inference-header-content-length"
BOTH = pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
VALUES: dict[DataType, list[object]] = {
    DataType.FP32: [1.5, -2.25, 3e38],
    DataType.FP64: [1.1, -2.2, 1e300],
    DataType.FP16: [1.5, -2.25, 65504.0],
    DataType.INT8: [-128, 0, 127],
    DataType.INT16: [-32768, 0, 32767],
    DataType.INT32: [-(1 << 31), 0, (1 << 31) - 1],
    DataType.INT64: [-(1 << 63), 0, (1 << 63) - 1],
    DataType.UINT8: [0, 1, 255],
    DataType.UINT16: [0, 1, 65535],
    DataType.UINT32: [0, 1, (1 << 32) - 1],
    DataType.UINT64: [0, 1, (1 << 64) - 1],
    DataType.BOOL: [True, False, True],
    DataType.STRING: [b"one", b"", "zwölf".encode()],
}
DTYPES = pytest.mark.parametrize("dtype", VALUES, ids=lambda dtype: NAME_OF[dtype])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("models")
    shutil.copytree(SAMPLE, root / "triton")
    (root / "triton" / "config.pbtxt").write_text('name: "triton" backend: "openvino"')
    entries: list[dict[str, object]] = [
        {"name": "digits", "base_path": str(SAMPLE), "model_version_policy": {"all": {}}},
        {"name": "triton", "base_path": "triton"},
        *[echo(root, each) for each in DataType],
        {"name": "pair", "base_path": directory(root, "pair"), **null(x="float", text="string")},
    ]
    entries[0]["version_labels"] = {"stable": 1}
    with Server("ie_serving", "config", config_flag(root / "config.json", *entries)) as process:
        yield process.ready()


def null(**inputs: str) -> dict[str, object]:
    """Configure a model that answers what it is asked."""
    shapes = {name: {"dtype": dtype, "shape": [-1, -1]} for name, dtype in inputs.items()}
    return {"driver": "null", "params": {"inputs": shapes}}


def echo(root: Path, dtype: DataType) -> dict[str, object]:
    name = NAME_OF[dtype]
    return {"name": name, "base_path": directory(root, name), **null(x=dtype.word)}


def directory(root: Path, name: str) -> str:
    (root / name / "1").mkdir(parents=True)
    return name


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with closing(triton.InferenceServerClient(f"127.0.0.1:{server.rest_port}")) as client:
        yield client


def tensor(name: str, array: Array, *, binary: bool = True) -> Any:
    given = triton.InferInput(name, list(array.shape), WORDS[array.dtype])
    given.set_data_from_numpy(array, binary_data=binary)
    return given


WORDS = {each.numpy: NAME_OF[each] for each in DataType if each is not DataType.BF16}


def asked(server: Server, body: object, model: str = "digits", **headers: str) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return server.rest.post(f"/v2/models/{model}/infer", content=content, headers=headers)


def raw(server: Server, document: object, tail: bytes, model: str) -> Any:
    text = json.dumps(document).encode()
    return asked(server, text + tail, model, **{HEADER: str(len(text))})


def x(data: object, shape: list[int], datatype: str = "FP32", **more: object) -> dict[str, object]:
    return {"name": "x", "shape": shape, "datatype": datatype, "data": data, **more}


def test_the_server_and_its_models_are_described(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    told = client.get_server_metadata()
    assert (told["name"], told["version"]) == ("ie_serving", __version__)
    assert {"binary_tensor_data", "sequence", "statistics", "parameters"} < {*told["extensions"]}
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    assert client.is_model_ready("digits", "stable")
    assert not client.is_model_ready("digits", "9")
    assert not client.is_model_ready("nobody")
    told = client.get_model_metadata("digits")
    assert told["versions"] == ["1", "2"]
    assert told["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 64]}]
    assert {each["name"] for each in told["outputs"]} == {"probabilities", "digit"}
    with pytest.raises(InferenceServerException, match="nobody"):
        client.get_model_metadata("nobody")


def test_statistics_are_told_of_a_version_a_model_and_all(client: Any, server: Server) -> None:
    image = tensor("image", np.zeros((1, 64), np.float32))
    before = client.get_inference_statistics("digits", "1")["model_stats"][0]["inference_count"]
    client.infer("digits", [image], model_version="1")
    (told,) = client.get_inference_statistics("digits", "stable")["model_stats"]
    assert (told["name"], told["version"]) == ("digits", "1")
    assert told["inference_count"] == before + 1
    assert told["inference_stats"]["success"]["ns"] > 0
    assert told in client.get_inference_statistics("digits")["model_stats"]
    assert told in client.get_inference_statistics()["model_stats"]
    assert server.rest.get("/v2/models/none/stats").status_code == 404
    assert told in server.rest.get("/v2/models/stats/").json()["model_stats"]
    assert server.rest.post("/v2/models/digits/stats").status_code == 405


def test_health_answers_the_json_of_the_specification(server: Server) -> None:
    assert server.rest.get("/v2/health/live").json() == {"live": True}
    assert server.rest.get("/v2/health/ready").json() == {"ready": True}
    ready = server.rest.get("/v2/models/digits/ready").json()
    assert ready == {"name": "digits", "ready": True}
    ready = server.rest.get("/v2/models/digits/versions/stable/ready").json()
    assert ready == {"name": "digits", "ready": True}


def test_a_model_lies_as_triton_wants_it(client: Any) -> None:
    """With its configuration beside the versions, which is not read."""
    reply = client.infer("triton", [tensor("image", np.zeros((1, 64), np.float32))])
    assert reply.as_numpy("probabilities").shape == (1, 10)


@DTYPES
@BOTH
def test_every_datatype_comes_back(client: Any, dtype: DataType, binary: bool) -> None:
    array = np.array([VALUES[dtype]], dtype.numpy)
    wanted = triton.InferRequestedOutput("x", binary_data=binary)
    if dtype is DataType.FP16 and not binary:
        pytest.skip("the client itself refuses FP16 in JSON")
    given = tensor("x", array, binary=binary)
    reply = client.infer(NAME_OF[dtype], [given], outputs=[wanted])
    found = reply.as_numpy("x")
    assert reply.get_output("x")["datatype"] == NAME_OF[dtype]
    if dtype is DataType.STRING and not binary:
        found = np.array([[each.encode() for each in row] for row in found], np.object_)
    assert found.tolist() == array.tolist()
    assert found.shape == array.shape


def test_half_precision_may_be_written_in_json(server: Server) -> None:
    for word in ("FP16", "BF16"):
        reply = asked(server, {"inputs": [x([1.5, -2.25], [1, 2], word)]}, word)
        (output,) = reply.json()["outputs"]
        assert output == {"name": "x", "datatype": word, "shape": [1, 2], "data": [1.5, -2.25]}


def test_bf16_has_two_bytes(server: Server) -> None:
    sent = np.array([1.5, -2.25], np.float32).view(np.uint32) >> 16
    tail = sent.astype(np.uint16).tobytes()
    given = {"name": "x", "shape": [1, 2], "datatype": "BF16", "parameters": size(tail)}
    parameters = {"binary_data_output": True}
    reply = raw(server, {"inputs": [given], "parameters": parameters}, tail, "BF16")
    assert reply.content[int(reply.headers[HEADER]) :] == tail


def size(tail: bytes) -> dict[str, object]:
    return {"binary_data_size": len(tail)}


@BOTH
def test_empty_tensors_come_back(client: Any, binary: bool) -> None:
    for shape in ((0, 3), (2, 0), (0, 0)):
        array = np.zeros(shape, np.int64)
        wanted = triton.InferRequestedOutput("x", binary_data=binary)
        reply = client.infer("INT64", [tensor("x", array, binary=binary)], outputs=[wanted])
        assert reply.get_output("x")["shape"] == list(shape)
        if not binary:
            assert reply.as_numpy("x").shape == shape


def test_outputs_are_chosen_in_their_order_and_form(client: Any) -> None:
    image = np.zeros((2, 64), np.float32)
    names = ("digit", "probabilities")
    wanted = [
        triton.InferRequestedOutput(names[0], binary_data=False),
        triton.InferRequestedOutput(names[1], binary_data=True),
    ]
    reply = client.infer("digits", [tensor("image", image)], outputs=wanted, request_id="7")
    told = reply.get_response()
    assert [each["name"] for each in told["outputs"]] == list(names)
    assert (told["id"], told["model_name"], told["model_version"]) == ("7", "digits", "2")
    assert reply.as_numpy("digit").shape == (2,)
    assert reply.as_numpy("probabilities").shape == (2, 10)
    every = client.infer("digits", [tensor("image", image)], model_version="1")
    assert every.get_response()["model_version"] == "1"
    assert {each["name"] for each in every.get_response()["outputs"]} == set(names)


def test_a_version_may_be_a_label(client: Any) -> None:
    image = np.zeros((1, 64), np.float32)
    reply = client.infer("digits", [tensor("image", image)], model_version="stable")
    assert reply.get_response()["model_version"] == "1"
    assert client.get_model_metadata("digits", "stable")["name"] == "digits"


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_bodies_may_be_compressed(client: Any, algorithm: str) -> None:
    image = np.zeros((64, 64), np.float32)
    reply = client.infer(
        "digits",
        [tensor("image", image)],
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    assert reply.as_numpy("probabilities").shape == (64, 10)


def test_several_inputs_may_come_in_both_forms(client: Any) -> None:
    numbers, text = np.float32([[1, 2]]), np.array([[b"a\x00b"]], np.object_)
    given = [tensor("x", numbers, binary=False), tensor("text", text)]
    reply = client.infer("pair", given)
    assert reply.as_numpy("x").tolist() == numbers.tolist()
    assert reply.as_numpy("text").tolist() == text.tolist()


def test_bytes_that_are_no_text_are_written_as_base64_and_say_so(server: Server) -> None:
    tail = struct.pack("<I", 2) + b"\xff\x00"
    given = {"name": "x", "shape": [1, 1], "datatype": "BYTES", "parameters": size(tail)}
    (output,) = raw(server, {"inputs": [given]}, tail, "BYTES").json()["outputs"]
    assert (output["parameters"], output["data"]) == ({"content_type": "base64"}, ["/wA="])
    again = {**output, "parameters": output["parameters"]}
    (output,) = asked(server, {"inputs": [again]}, "BYTES").json()["outputs"]
    assert output["data"] == ["/wA="]


def test_numbers_that_are_not_finite_come_back(server: Server) -> None:
    body = (
        b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[NaN,Infinity,-Infinity]}]}'
    )
    reply = asked(server, body, "FP32")
    assert b'"data":[NaN,Infinity,-Infinity]' in reply.content


@pytest.mark.parametrize("data", [[1, 2, 3, 4], [[1, 2], [3, 4]], [[[1, 2], [3, 4]]]], ids=str)
def test_data_may_be_flat_or_nested(server: Server, data: object) -> None:
    (output,) = asked(server, {"inputs": [x(data, [2, 2])]}, "FP32").json()["outputs"]
    assert (output["shape"], output["data"]) == ([2, 2], [1, 2, 3, 4])


def test_a_request_without_json_is_answered(server: Server) -> None:
    image = np.zeros((2, 64), np.float32).tobytes()
    reply = asked(server, image, **{HEADER: "0"})
    length = int(reply.headers[HEADER])
    told = json.loads(reply.content[:length])
    assert {each["name"]: each["shape"] for each in told["outputs"]} == {
        "probabilities": [2, 10],
        "digit": [2],
    }
    sizes = [each["parameters"]["binary_data_size"] for each in told["outputs"]]
    assert len(reply.content) == length + sum(sizes)
    assert asked(server, image[:-1], **{HEADER: "0"}).status_code == 400


def test_large_bodies_are_answered_in_binary_and_in_json(client: Any, server: Server) -> None:
    array = np.arange(400_000, dtype=np.float32).reshape(1000, 400)
    for binary in (True, False):
        given = tensor("x", array, binary=binary)
        wanted = triton.InferRequestedOutput("x", binary_data=binary)
        reply = client.infer("FP32", [given], outputs=[wanted])
        assert np.array_equal(reply.as_numpy("x"), array)
    nested = asked(server, {"inputs": [x(array.tolist(), [1000, 400])]}, "FP32")
    assert nested.json()["outputs"][0]["data"] == array.reshape(-1).tolist()


IMAGE = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
NO_DATA = {name: value for name, value in IMAGE.items() if name != "data"}
REGION = {"shared_memory_region": "r"}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        pytest.param(b"", 400, "The document is empty", id="nothing"),
        pytest.param(b"[]", 400, "Is not object", id="no object"),
        pytest.param({"inputs": {}}, 400, "has to be a list", id="inputs are no list"),
        pytest.param({"inputs": [1]}, 400, "list of objects", id="an input is no object"),
        pytest.param({"inputs": []}, 400, "input size does not match", id="none of them"),
        pytest.param({"inputs": [{}]}, 400, 'needs \\"name\\"', id="no name"),
        pytest.param({"inputs": [{**IMAGE, "name": 3}]}, 400, "a string", id="name is none"),
        pytest.param(
            {"inputs": [{**IMAGE, "shape": [1 << 62, 2]}]}, 400, "data of shape", id="huge"
        ),
        pytest.param({"inputs": [{**IMAGE, "shape": [1 << 70]}]}, 400, "x", id="beyond 64 bits"),
        pytest.param({"inputs": [{**IMAGE, "shape": [1] * 40}]}, 400, "40 dim", id="many"),
        pytest.param({"inputs": [{**IMAGE, "shape": [1.5, 2]}]}, 400, "actual", id="fractions"),
        pytest.param({"inputs": [{**IMAGE, "shape": "1,2"}]}, 400, "list of sizes", id="text"),
        pytest.param({"inputs": [{**IMAGE, "shape": [1, 2, 1]}]}, 400, "required shape", id="rank"),
        pytest.param(
            {"inputs": [x([[1, 2, 3], [4, 5, 6]], [3, 2])]}, 400, "[2, 3]", id="transposed"
        ),
        pytest.param({"inputs": [x([[1], [2, 3]], [1, 3])]}, 400, "size: 2", id="ragged"),
        pytest.param({"inputs": [{**IMAGE, "data": ["1", 2]}]}, 400, "String", id="no number"),
        pytest.param({"inputs": [{**IMAGE, "data": None}]}, 400, "neither", id="no data"),
        pytest.param({"inputs": [{**IMAGE, "data": {}}]}, 400, "expected type", id="odd data"),
        pytest.param(
            {"inputs": [{**IMAGE, "parameters": 3}]}, 400, "an object", id="parameters are none"
        ),
        pytest.param(
            {"inputs": [{**IMAGE, "parameters": {"binary_data_size": 8}}]},
            400,
            "both",
            id="data and bytes",
        ),
        pytest.param(
            {"inputs": [{**IMAGE, "data": [], "parameters": {"binary_data_size": 8}}]},
            400,
            "Inference-Header-Content-Length",
            id="bytes without the header",
        ),
        pytest.param({"inputs": [IMAGE], "id": 7}, 400, "a string", id="id is none"),
        pytest.param({"inputs": [IMAGE], "outputs": [{}]}, 400, "needs", id="nameless output"),
        pytest.param(
            {"inputs": [IMAGE], "outputs": [{"name": "x"}, {"name": "x"}]},
            400,
            "there more than once",
            id="outputs twice",
        ),
        pytest.param(
            {"inputs": [IMAGE], "parameters": {"binary_data_output": 1}},
            400,
            "true or false",
            id="1",
        ),
        pytest.param(
            {"inputs": [{**NO_DATA, "parameters": {**REGION, "shared_memory_byte_size": 256}}]},
            501,
            "--shared_memory true",
            id="memory of others",
        ),
        pytest.param(
            {"inputs": [{**IMAGE, "parameters": REGION}]},
            400,
            "has to be a number of bytes",
            id="memory without a size",
        ),
    ],
)
def test_odd_bodies_are_refused(server: Server, body: object, status: int, said: str) -> None:
    """Beside those that are rows of the conformance table."""
    reply = asked(server, body, "FP32")
    assert reply.status_code == status, reply.text
    assert list(reply.json()) == ["error"]
    assert said in reply.text
    assert asked(server, {"inputs": [IMAGE]}, "FP32").status_code == 200


def bytes_of(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(each)) + each for each in elements)


def described(tail_size: object, shape: list[int], datatype: str = "FP32") -> dict[str, object]:
    parameters = {"binary_data_size": tail_size}
    return {"name": "x", "shape": shape, "datatype": datatype, "parameters": parameters}


@pytest.mark.parametrize(
    ("given", "tail", "model", "said"),
    [
        pytest.param(described(4, [1, 2]), 4 * b"0", "FP32", "has 4 bytes", id="other shape"),
        pytest.param(described(-1, [1, 2]), b"", "FP32", "number of bytes", id="negative"),
        pytest.param(described(1 << 60, [1, 2]), b"", "FP32", "are left", id="huge"),
        pytest.param(described(1.5, [1, 2]), b"", "FP32", "number of bytes", id="fraction"),
        pytest.param(described("8", [1, 2]), b"", "FP32", "number of bytes", id="text"),
        pytest.param(described(0, [1 << 40, 1 << 40]), b"", "FP32", "has 0 bytes", id="shape"),
        pytest.param(described(0, [0, 1 << 62]), b"", "FP32", "x", id="nothing of much"),
        pytest.param(
            described(5, [1, 1], "BYTES"),
            b"\x09\0\0\0a",
            "BYTES",
            "expected 1 elements",
            id="truncated",
        ),
        pytest.param(
            described(2, [1, 1], "BYTES"), b"\x01\0", "BYTES", "expected 1 elements", id="no length"
        ),
        pytest.param(
            described(5, [1, 2], "BYTES"), bytes_of(b"a"), "BYTES", "expected 2 elements", id="few"
        ),
        pytest.param(
            described(4, [1 << 30, 4], "BYTES"), bytes_of(b""), "BYTES", "elements", id="many"
        ),
    ],
)
def test_odd_bytes_are_refused(
    server: Server, given: object, tail: bytes, model: str, said: str
) -> None:
    reply = raw(server, {"inputs": [given]}, tail, model)
    assert reply.status_code == 400, reply.text
    assert said in reply.json()["error"]


@pytest.mark.parametrize("length", ["-1", "1000000", "x", "1.0", "9" * 30, ""], ids=repr)
def test_odd_lengths_of_json_are_refused(server: Server, length: str) -> None:
    reply = asked(server, {"inputs": [IMAGE]}, "FP32", **{HEADER: length})
    assert reply.status_code == 400
    assert "Inference-Header-Content-Length" in reply.json()["error"]


def test_json_is_read_to_the_length_that_is_told(server: Server) -> None:
    """Whatever is behind it belongs to the tensors."""
    text = json.dumps({"inputs": [IMAGE]}).encode()
    reply = asked(server, text, "FP32", **{HEADER: str(len(text) - 1)})
    assert reply.status_code == 400
    compressed = gzip.compress(text)
    encoded = {"content-encoding": "gzip", HEADER: str(len(text))}
    assert asked(server, compressed, "FP32", **encoded).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v2/models/digits/versions/99999999999999999999999/infer", 404),
        ("/v2/models/digits/versions/nobody/infer", 400),
    ],
)
def test_a_version_that_is_not_there_is_refused(server: Server, path: str, status: int) -> None:
    reply = server.rest.post(path, json={"inputs": [IMAGE]})
    assert reply.status_code == status
    assert "error" in reply.json()


def test_another_method_is_refused(server: Server) -> None:
    reply = server.rest.get("/v2/models/digits/infer")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert server.rest.post("/v2/models/digits").status_code == 405
    assert server.rest.delete("/v2").status_code == 405


def test_a_browser_may_ask_beforehand(server: Server) -> None:
    """As below /v1/; whether a page of another site may read the reply, CORS says."""
    origin = {"origin": "https://example.com"}
    reply = server.rest.options("/v2/models/digits/infer", headers=origin)
    assert reply.status_code == 200


def test_requests_are_counted(server: Server) -> None:
    asked(server, {"inputs": [IMAGE]}, "FP32")
    page = server.rest.get("/metrics").text
    (line,) = [
        each
        for each in page.splitlines()
        if each.startswith("ovms_requests_success{") and 'name="FP32"' in each
    ]
    for label in ('api="KServe"', 'interface="REST"', 'method="ModelInfer"', 'version="1"'):
        assert label in line
