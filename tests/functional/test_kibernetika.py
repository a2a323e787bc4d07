"""kibernetika-serving's command line, hooks and HTTP, with small real models."""

import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from PIL import Image
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

from tests.functional.servers import Server, rpc_refused
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import linear

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "migration-kibernetika-serving.md"
ELSEWHERE = """
from ml_serving.utils import helpers

def process(inputs, ctx):
    found = helpers.predict_grpc({"cm": inputs["rows"].tolist()}, inputs["at"][0].decode())
    return {"name": found["name"], "total": found["probabilities"].sum(axis=1)}
"""
PRINTED = """
def first(inputs, ctx):
    ctx.file = inputs.get("input")
    if ctx.file is not None:
        return {"ml-serving-ignore": True}
    return {"x": inputs["x"].reshape(-1, 4)}

def second(inputs, ctx):
    return {"x": inputs["y"]} if ctx.file is None else {"ml-serving-ignore": True}

def last(outputs, ctx, **kwargs):
    assert kwargs["threshold"] == "0.5"
    return outputs if ctx.file is None else {"bytes": len(ctx.file[0])}

preprocess = [first, second]
postprocess = [None, last]
"""
HOOKS = """
import io
import logging
from functools import wraps

import numpy as np
from PIL import Image
from ml_serving.utils import helpers

LOG = logging.getLogger(__name__)
PARAMS = {"names": ""}


def timed(func):
    @wraps(func)
    def decorator(*args):
        LOG.info("called")
        return func(*args)
    return decorator


def init_hook(**params):
    PARAMS.update(params)


@timed
def scaled(inputs, ctx):
    ctx.asked = inputs
    if "frame" in inputs or "boom" in inputs:
        return {"ml-serving-ignore": True}
    return {"x": inputs["cm"]}


def skipped(inputs, ctx, **kwargs):
    assert kwargs["names"] == PARAMS["names"]
    return {"X": inputs["y"]} if "y" in inputs else {"ml-serving-ignore": True}


def answered(outputs, ctx):
    if "boom" in ctx.asked:
        raise RuntimeError("no face found")
    if "frame" in ctx.asked:
        image, is_stream = helpers.load_image(ctx.asked, "frame")
        file = io.BytesIO()
        Image.fromarray(image[::-1]).save(file, "PNG")
        return {"picture": file.getvalue(), "is_stream": is_stream}
    names = PARAMS["names"].split(",")
    return {"name": [names[label] for label in outputs["label"]],
            "probabilities": outputs["probabilities"]}


preprocess = [scaled, skipped]
postprocess = [None, answered]
"""

FLOWERS, SPECIES = load_iris(return_X_y=True)
NAMES = ["setosa", "versicolor", "virginica"]


@pytest.fixture(scope="module")
def iris() -> LogisticRegression:
    return LogisticRegression(max_iter=1000).fit(np.float32(FLOWERS) * 10, SPECIES)


@pytest.fixture(scope="module")
def server(iris: LogisticRegression, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("kibernetika")
    linear(root / "scale", 10.0)
    model = to_onnx(iris, np.float32(FLOWERS[:1]), options={"zipmap": False}, target_opset=15)
    (root / "iris.onnx").write_bytes(model.SerializeToString())
    (root / "hooks.py").write_text(HOOKS)
    with Server(
        "kserving",
        *("--driver", "openvino", "--model-path", str(root / "scale" / "model.xml")),
        *("--driver", "onnx", "--model-path", str(root / "iris.onnx")),
        *("--hooks", str(root / "hooks.py"), "-o", f"names={','.join(NAMES)}"),
        *("--option", "device=MYRIAD", "--http-enable", "--http-server-command=tfservable-proxy"),
    ) as server:
        yield server.ready()


def request(name: str, **inputs: np.ndarray) -> Any:
    made = predict_pb2.PredictRequest()
    if name:
        made.model_spec.name = name
    for key, array in inputs.items():
        tensor = made.inputs[key]
        tensor.tensor_shape.SetInParent()
        for size in array.shape:
            tensor.tensor_shape.dim.add(size=size)
        if array.dtype == object:
            tensor.dtype = 7
            tensor.string_val.extend(array.ravel().tolist())
        else:
            tensor.dtype = 1
            tensor.tensor_content = np.float32(array).tobytes()
    return made


@pytest.mark.parametrize("name", ["", "default", "whatever"])
def test_a_chain_answers_as_the_libraries_do(
    server: Server, iris: LogisticRegression, name: str
) -> None:
    rows = np.float32(FLOWERS[::15])
    reply = server.prediction.Predict(request(name, cm=rows), timeout=PATIENCE_S)
    assert (reply.model_spec.name, reply.model_spec.version.value) == ("default", 1)
    assert [each.decode() for each in reply.outputs["name"].string_val] == [
        NAMES[label] for label in iris.predict(rows * 10)
    ]
    found = np.frombuffer(reply.outputs["probabilities"].tensor_content, np.float32)
    assert np.allclose(found.reshape(-1, 3), iris.predict_proba(rows * 10), atol=1e-5)


def test_an_output_filter_leaves_outputs_out_and_large_requests_pass(server: Server) -> None:
    asked = request("", cm=np.float32(FLOWERS).repeat(200, 0))
    asked.output_filter.append("name")
    reply = server.prediction.Predict(asked, timeout=PATIENCE_S)
    assert list(reply.outputs) == ["name"] and len(reply.outputs["name"].string_val) == 30000
    asked = request("", cm=np.float32(FLOWERS))
    asked.output_filter.append("nothing")
    with pytest.raises(grpc.RpcError) as raised:
        server.prediction.Predict(asked, timeout=PATIENCE_S)
    assert "output tensor alias not found in signature: nothing" in raised.value.details()


def test_metadata_are_given_without_a_name(server: Server) -> None:
    asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    reply = server.prediction.GetModelMetadata(asked, timeout=PATIENCE_S)
    assert reply.model_spec.name == "default"


def test_an_exception_is_its_class_and_text(server: Server) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        server.prediction.Predict(request("", boom=np.float32([1])), timeout=PATIENCE_S)
    assert raised.value.code() is grpc.StatusCode.INTERNAL
    assert raised.value.details().endswith(":postprocess[1] failed: RuntimeError: no face found")
    reply = server.rest.post("/predict", files={"float_boom": (None, "1")})
    assert reply.status_code == 500 and reply.headers["content-type"].startswith("text/plain")
    assert reply.text.endswith("RuntimeError: no face found\n")


@pytest.mark.parametrize("path", ["/predict", "/predict/", "/predict/iris/serving_default/1"])
def test_json_says_its_dtypes(server: Server, iris: LogisticRegression, path: str) -> None:
    inputs = {"cm": {"dtype": 1, "data": FLOWERS[[0, 60]].tolist()}}
    reply = server.rest.post(path, json={"inputs": inputs})
    assert reply.headers["content-type"] == "application/json"
    found = reply.json()
    assert found["name"] == ["setosa", "versicolor"]
    assert np.allclose(
        found["probabilities"], iris.predict_proba(np.float32(FLOWERS[[0, 60]]) * 10), atol=1e-5
    )
    body = {"inputs": inputs, "out_filter": ["name"], "out_mime_type": "text/plain"}
    assert server.rest.post(path, json=body).json() == ["setosa", "versicolor"]


def test_a_large_reply_is_compressed(server: Server) -> None:
    inputs = {"cm": {"dtype": 1, "data": FLOWERS.tolist()}}
    reply = server.rest.post(
        "/predict", json={"inputs": inputs}, headers={"accept-encoding": "gzip"}
    )
    assert reply.headers["content-encoding"] == "gzip"
    assert len(reply.json()["name"]) == 150


def png(*pixels: tuple[int, int, int]) -> bytes:
    image, file = Image.new("RGB", (1, len(pixels))), io.BytesIO()
    image.putdata(pixels)
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("kind", ["bytes", "string"])
def test_a_picture_goes_in_and_a_picture_comes_out(
    server: Server, kind: str, tmp_path: Path
) -> None:
    """`curl URL/predict/ -F "bytes_input=@input.jpg"`, with curl."""
    (tmp_path / "in.png").write_bytes(png((255, 0, 0), (0, 0, 255)))
    form = (f"{kind}_frame=@{tmp_path}/in.png", "out_filters=picture", "out_mime_type=image/png")
    flags = [flag for each in form for flag in ("-F", each)]
    told = "%{content_type} %header{x-content-type-options} %header{content-security-policy}"
    command = ["curl", "-sS", "-w", told, "-o", str(tmp_path / "out.png"), *flags]
    kind_of = subprocess.run(
        [*command, f"{server.url}/predict/"], check=True, capture_output=True, timeout=PATIENCE_S
    ).stdout
    assert kind_of == b"image/png nosniff sandbox"
    with Image.open(tmp_path / "out.png") as image:
        assert np.asarray(image).reshape(-1, 3).tolist() == [[0, 0, 255], [255, 0, 0]]


def test_bytes_that_are_no_text_are_told_apart_in_json(server: Server) -> None:
    files = {"bytes_frame": ("in.png", png((1, 2, 3)))}
    found = server.rest.post("/predict", files=files).json()
    assert found["is_stream"] is False and found["picture"].keys() == {"b64"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        pytest.param("GET", "/predict/", {}, 405, "POST is expected", id="another method"),
        pytest.param("POST", "/predict/a/b/c", {}, 404, "VERSION a number", id="another path"),
        pytest.param(
            "POST",
            "/predict/a/serving_default/7",
            {"inputs": {}},
            404,
            "Servable not found",
            id="no such version",
        ),
        pytest.param(
            "POST",
            "/predict/a/other",
            {"inputs": {}},
            404,
            'no signature "other"',
            id="no such signature",
        ),
        pytest.param("POST", "/predict/", {}, 400, 'expected {"inputs"', id="no inputs"),
        pytest.param(
            "POST",
            "/predict/",
            {"inputs": {"x": {"dtype": 99, "data": 1}}},
            400,
            "dtype 99 given",
            id="another dtype",
        ),
        pytest.param(
            "POST",
            "/predict/",
            {"inputs": {"x": {"dtype": 3, "data": 0.5}}},
            400,
            'input "x": ',
            id="a value that does not fit",
        ),
    ],
)
def test_errors_are_plain_text(
    server: Server, method: str, path: str, body: Any, status: int, text: str
) -> None:
    reply = server.rest.request(method, path, json=body)
    assert (reply.status_code, text in reply.text) == (status, True), reply.text
    assert reply.headers["content-type"].startswith("text/plain")


def test_the_rest_of_the_server_answers_beside_it(server: Server) -> None:
    assert server.rest.get("/v1/models/default").json()["model_version_status"][0]["state"] == (
        "AVAILABLE"
    )
    flower = FLOWERS[60].tolist()
    column = server.rest.post("/v1/models/default:predict", json={"inputs": {"cm": [flower]}})
    assert column.json()["outputs"]["name"] == ["versicolor"]
    row = server.rest.post("/v1/models/default:predict", json={"instances": [{"cm": flower}]})
    assert row.json()["predictions"][0]["name"] == "versicolor"
    assert "OpenVINO has no MYRIAD any more" in server.log


def test_a_hook_asks_the_model_of_another_server(server: Server, tmp_path: Path) -> None:
    (tmp_path / "hooks.py").write_text(ELSEWHERE)
    flags = ("--driver=null", "--model-path=any", "--hooks", str(tmp_path / "hooks.py"))
    asking = Server("kuberlab-serving", *flags)
    rows = np.float32(FLOWERS[::50])
    try:
        asking.ready()
        at = np.array([f"127.0.0.1:{server.port}".encode()], object)
        reply = asking.prediction.Predict(request("", rows=rows, at=at), timeout=PATIENCE_S)
        assert [each.decode() for each in reply.outputs["name"].string_val] == NAMES
        with rpc_refused("INTERNAL", f"127.0.0.1:{server.port} answered IN"):
            asking.prediction.Predict(request("", rows=rows[0], at=at), timeout=PATIENCE_S)
    finally:
        asking.close()


def test_the_pages_commands_do_what_it_says(tmp_path: Path) -> None:
    printed = "\n".join(re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL)).replace(
        "\\\n", " "
    )
    for name, factor in (("face", 2.0), ("emotion", 3.0)):
        linear(tmp_path / name, factor)
        for part in ("xml", "bin"):
            (tmp_path / name / f"model.{part}").rename(tmp_path / f"{name}.{part}")
    (tmp_path / "hooks.py").write_text(PRINTED)
    (tmp_path / "input.jpg").write_bytes(b"123")
    start, *asks = [line for line in printed.splitlines() if line.startswith(("kserving", "curl"))]
    with Server(*shlex.split(start), cwd=tmp_path) as server:
        server.ready()
        replies = [
            subprocess.run(
                shlex.split(ask.replace("localhost:9001", f"127.0.0.1:{server.rest_port}")),
                check=True,
                capture_output=True,
                timeout=PATIENCE_S,
                cwd=tmp_path,
            ).stdout
            for ask in asks
        ]
    rows = b'{"y":[[6.0,12.0,18.0,24.0]]}'
    assert replies == [rows, b'{"bytes":3}', rows]
