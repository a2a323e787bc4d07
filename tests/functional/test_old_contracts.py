"""Kernels of IBM EDI and pipelines of Konduit, as their clients meet them: one server with both."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from tensorflow_serving.apis import predict_pb2

from ie_serving.core.values.access import of_password
from tests.functional.servers import ROOT, Server
from tests.onnx_models import onnx_model
from tests.tables import named_by

ECHO = """
import redhareapiversion
from redhareapi import Kernel

class Echo(Kernel):
    def on_kernel_start(self, kernel_context):
        Kernel.log_info(kernel_context.get_instance_id())

    def on_task_invoke(self, task_context):
        try:
            while task_context != None:
                if task_context.get_input_data() == "fail":
                    raise ValueError("told to")
                task_context.set_output_data(task_context.get_input_data())
                task_context = task_context.next()
        except Exception as error:
            Kernel.log_error(error)

if __name__ == "__main__":
    Echo().run()
"""


def documented() -> Any:
    """Give the pipeline that the page about graphs shows, which is to run as it is printed."""
    page = (ROOT / "docs" / "guide" / "graphs-of-other-servers.md").read_text()
    section = page[page.index("## Pipelines of Konduit Serving") :]
    return yaml.safe_load(section.split("```yaml\n")[1].split("```")[0])


def doubling() -> onnx.ModelProto:
    node = onnx.helper.make_node("Add", ["x", "x"], ["y"])
    return onnx_model([node], {"x": [None]}, {"y": [None]})


def write_package(root: Path) -> None:
    package = root / "echo" / "1"
    package.mkdir(parents=True)
    (package / "kernel.py").write_text(ECHO)
    (package / "model.json").write_text('{"name": "echo", "kernel_path": "kernel.py"}')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("old")
    write_package(root)
    onnx.save(doubling(), root / "double.onnx")
    models = [{"config": {"name": "echo", "base_path": "echo"}}]
    config = {**documented(), "host": "localhost", "model_config_list": models}
    (root / "c.yaml").write_text(json.dumps(config))  # JSON is YAML
    flags = f"--config_path={root / 'c.yaml'}", "--allow_python"
    with Server("ie_serving", "config", *flags) as started:
        yield started.ready()


# -- EDI ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/dlim/v1/inference/echo", "/v1/models/echo:invoke"])
def test_a_body_reaches_the_kernel_and_comes_back(server: Server, path: str) -> None:
    body = '{"id":1,"inputs":[{"name":"ä","shape":[1],"datatype":"FP32","data":[1]}]}'
    reply = server.rest.post(path, content=body)
    assert (reply.status_code, reply.text) == (200, body)


def test_the_reply_is_announced_as_json(server: Server) -> None:
    reply = server.rest.post("/dlim/v1/inference/echo", content="1")
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("model", "body", "status", "text"),
    [
        pytest.param(
            "echo",
            b"fail",
            500,
            "kernel Echo left this task without a reply",
            id="a task that is left alone",
        ),
        pytest.param(
            "echo", b"\xff", 400, "the body is no text in UTF-8", id="bytes for a kernel of texts"
        ),
        pytest.param("nobody", b"", 404, "nobody", id="no such model"),
        pytest.param("double", b"", 400, "takes no bytes", id="a model of numbers"),
    ],
)
def test_a_failure_is_told_with_its_status(
    server: Server, model: str, body: bytes, status: int, text: str
) -> None:
    reply = server.rest.post(f"/dlim/v1/inference/{model}", content=body)
    assert reply.status_code == status
    assert text in reply.json()["error"]


def test_a_kernel_answers_over_grpc(server: Server) -> None:
    asked = predict_pb2.PredictRequest()
    asked.model_spec.name = "echo"
    asked.inputs["input_data"].dtype = 7
    asked.inputs["input_data"].string_val.append(b"over gRPC")
    asked.inputs["input_data"].tensor_shape.SetInParent()
    given = server.prediction.Predict(asked, timeout=30).outputs["output_data"]
    assert given.string_val == [b"over gRPC"]


TOKEN = "/dlim/v1/auth/token"


def test_a_client_of_edi_asks_for_a_token_and_sends_it(tmp_path: Path) -> None:
    """As `ibm-wmla` and the published page of a browser do it."""
    write_package(tmp_path)
    digest = hashlib.sha256(b"right").hexdigest()
    password = f"scrypt:2:1:1:{'00' * 16}:{of_password(b'secret', bytes(16), 2, 1, 1).hex()}"
    (tmp_path / "keys").write_text(f"ann predict * sha256:{digest}\nbob predict * {password}\n")
    flags = "--model_name=echo", f"--model_path={tmp_path / 'echo'}", "--enable_cors=true"
    keys = f"--api_key_file={tmp_path / 'keys'}"
    with Server("ie_serving", "model", *flags, keys, "--allow_python") as server:
        rest = server.ready().rest
        assert rest.post(TOKEN, auth=("bob", "wrong")).status_code == 401
        token = rest.post(TOKEN, auth=("bob", "secret")).json()["user_token"]
        again = rest.post(f"{TOKEN}/inference", headers={"X-Auth-Token": token}).json()
        for name, value in (
            ("X-Auth-Token", again["service_token"]),
            ("X-User-Token", token),
            ("X-User-Token", "right"),
        ):
            reply = rest.post(f"{INFERENCE}/echo", content="1", headers={name: value})
            assert (reply.status_code, reply.text) == (200, "1")
        for name, value in (("X-User-Token", "wrong"), ("X-Auth-Token", ""), ("X-Token", "right")):
            reply = rest.post(f"{INFERENCE}/echo", content="1", headers={name: value})
            assert reply.status_code == 401
        asked = {"origin": "http://a.example", "access-control-request-headers": "x-user-token"}
        reply = rest.request("OPTIONS", f"{INFERENCE}/echo", headers=asked)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "*")
        assert "X-User-Token" in reply.headers["access-control-allow-headers"]


def test_without_keys_any_token_will_do(server: Server) -> None:
    token = server.rest.post(TOKEN).json()["access_token"]
    reply = server.rest.post(f"{INFERENCE}/echo", content="1", headers={"X-Auth-Token": token})
    assert (reply.status_code, reply.text) == (200, "1")


INFERENCE = "/dlim/v1/inference"
OF_ONE_MODEL = ("operation/start", "operation/stop", "instance", "readme", "streaming")
OTHERS = (
    *((method, "model") for method in ("GET", "POST")),
    *((method, "model/echo") for method in ("GET", "PUT", "DELETE")),
    *((method, f"model/echo/{more}") for method in ("GET", "PUT") for more in OF_ONE_MODEL),
    *((method, "model/echo/appprofile") for method in ("GET", "PUT")),
    ("GET", "modelextension"),
    *(("POST", f"deployment/model{more}") for more in ("", "/echo")),
    *((method, "deployment/runtime/r") for method in ("GET", "POST", "PUT", "DELETE")),
    ("GET", "inference/echo"),
)


@named_by("method path", ("method", "path"), OTHERS)
def test_other_routes_of_edi_are_not_there(server: Server, method: str, path: str) -> None:
    assert server.rest.request(method, f"/dlim/v1/{path}").status_code == 404


# -- Konduit ------------------------------------------------------------------------------------


def array(numbers: Any) -> dict[str, Any]:
    raw = np.asarray(numbers, ">f4")
    text = base64.b64encode(raw.tobytes()).decode()
    return {
        "@NDArrayType": "FLOAT",
        "@NDArrayShape": [*raw.shape],
        "@NDArrayDataBase64": text,
    }


@pytest.mark.parametrize(("which", "factor"), [("model", 2), ("script", 3)])
def test_a_pipeline_answers_predict(server: Server, which: str, factor: int) -> None:
    reply = server.rest.post("/predict", json={"which": which, "x": array([1, 2.5])})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {"y": array([1 * factor, 2.5 * factor])}


def test_a_form_is_data(server: Server) -> None:
    form = {"which": (None, "model"), "x": (None, "[1, 2.5]")}
    reply = server.rest.post("/predict", files=form, headers={"accept": "application/json"})
    assert reply.json() == {"y": array([2, 5])}


def test_a_form_compressed_by_gzip_is_answered(server: Server) -> None:
    boundary = "--b\r\ncontent-disposition: form-data; name="
    text = f'{boundary}"which"\r\n\r\nmodel\r\n{boundary}"x"\r\n\r\n[3]\r\n--b--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=b", "content-encoding": "gzip"}
    reply = server.rest.post("/predict", content=gzip.compress(text.encode()), headers=headers)
    assert reply.json() == {"y": array([6])}


def test_the_pipeline_is_the_model_default(server: Server) -> None:
    asked = {"inputs": json.dumps({"which": "model", "x": [1, 2]})}
    reply = server.rest.post("/v1/models/default:predict", json=asked)
    assert json.loads(reply.json()["outputs"]) == {"y": array([2, 4])}
    assert server.rest.get("/v1/models").json() == {"models": ["default", "double", "echo"]}


JSON = {"content-type": "application/json"}
FAILED = r'^:tensorflow:serving:request_count{model_name="default",status="(?!OK").*"} (\d+)$'


@pytest.mark.parametrize(
    ("headers", "body", "status", "code", "text"),
    [
        pytest.param(
            {},
            "{}",
            400,
            "MISSING_OR_EMPTY_CONTENT_TYPE_HEADER",
            "Content-Type is missing",
            id="no content type",
        ),
        pytest.param(
            {"content-type": "application/octet-stream"},
            "{}",
            400,
            "INVALID_CONTENT_TYPE_HEADER",
            "expected application/json or a form",
            id="another content type",
        ),
        pytest.param(
            {**JSON, "accept": "text/html"},
            "{}",
            400,
            "INVALID_ACCEPT_HEADER",
            "replies are application/json",
            id="another type of reply",
        ),
        pytest.param(
            JSON, "{", 400, "DATA_PARSING_ERROR", "the body is no JSON", id="a body that is cut"
        ),
        pytest.param(
            JSON,
            '{"which": "x"}',
            400,
            "DATA_PARSING_ERROR",
            'step "select" (SWITCH): which is',
            id="a value without a branch",
        ),
        pytest.param(
            JSON,
            '{"which": "script", "x": ["a"]}',
            500,
            "PIPELINE_PROCESSING_ERROR",
            'step "triple" (PYTHON): ',
            id="a step that fails",
        ),
    ],
)
def test_errors_have_konduits_form(
    server: Server, headers: dict[str, str], body: str, status: int, code: str, text: str
) -> None:
    before = failed(server)
    reply = server.rest.post("/predict", content=body, headers=headers)
    assert (reply.status_code, reply.json()["errorCode"]) == (status, code)
    assert text in reply.json()["errorMessage"]
    assert failed(server) == before + 1


def failed(server: Server) -> int:
    """Give how many requests to the pipeline have failed."""
    counted = re.findall(FAILED, server.rest.get("/metrics").text, re.MULTILINE)
    return sum(map(int, counted))
