"""What Amazon SageMaker starts and asks: `ie_serving serve`, with all in the environment."""

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from openvino import opset13

from ie_serving.core.values.tensors import DataType
from tests.functional.servers import PLAIN, SAMPLE
from tests.process import Process, free_ports
from tests.tables import named_by
from tests.unit.engines.openvino.models import unary

REST_READY = "REST server listens on"
ROWS = [[0.0] * 64, [1.0] * 64]
CSV = "\n".join(",".join(map(str, row)) for row in ROWS)
LINES = "\n".join(map(json.dumps, ROWS))
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


def npy(array: Any) -> bytes:
    written = io.BytesIO()
    np.save(written, array)
    return written.getvalue()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of a server with the models `digits` and `double`, which has one output."""
    root = tmp_path_factory.mktemp("ml")
    shutil.copytree(SAMPLE, root / "export" / "digits")
    for version in ("1", "2"):
        directory = root / "double" / version
        unary(directory, [-1, 2], DataType.FP32, lambda x: opset13.multiply(x, np.float32(2)))
    (port,) = free_ports(1)
    environment = {
        "SAGEMAKER_MODEL_DIR": str(root),
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "digits",
        "SAGEMAKER_TFS_ENABLE_BATCHING": "true",
        "SAGEMAKER_TFS_INSTANCE_COUNT": "2",
        "SAGEMAKER_GUNICORN_WORKERS": "2",
    }
    with Process("ie_serving", "serve", env=environment) as process:
        process.line("SAGEMAKER_GUNICORN_WORKERS has no effect")
        process.line(REST_READY)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=PLAIN
        ) as asked:
            yield asked


@pytest.fixture(scope="module")
def expected(client: httpx.Client) -> Any:
    reply = client.post("/v1/models/digits:predict", json={"instances": ROWS})
    return reply.json()["predictions"]


def invoke(client: httpx.Client, body: Any, kind: str, **more: str) -> httpx.Response:
    headers = {
        "content-type": kind,
        **{name.replace("_", "-"): text for name, text in more.items()},
    }
    return client.post("/invocations", content=body, headers=headers)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("application/json", json.dumps({"instances": ROWS}), id="JSON with instances"),
        pytest.param("application/json; charset=utf-8", json.dumps(ROWS), id="JSON with a charset"),
        pytest.param("application/jsonlines", LINES, id="JSON lines"),
        pytest.param("text/csv", CSV, id="CSV"),
        pytest.param("application/x-npy", npy(np.float32(ROWS)), id="npy of floats"),
        pytest.param("application/x-npy", npy(np.array(ROWS, np.int64)), id="npy of integers"),
    ],
)
def test_each_form_of_a_request_is_answered(
    client: httpx.Client, expected: Any, kind: str, body: str | bytes
) -> None:
    reply = invoke(client, body, kind)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {"predictions": expected}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/csv", "1,2\n3,4.5"),
        ("application/json", '{"inputs": [[1, 2], [3, 4.5]]}'),
        ("application/x-npy", npy([[1, 2], [3, 4.5]])),
    ],
)
def test_each_form_of_a_reply_is_given(client: httpx.Client, kind: str, body: str | bytes) -> None:
    def asked(accept: str) -> httpx.Response:
        headers = {"content-type": kind, "accept": accept, ATTRIBUTES: "tfs-model-name=double"}
        return client.post("/invocations", content=body, headers=headers)

    lines = asked("application/jsonlines")
    assert lines.headers["content-type"] == "application/jsonlines"
    assert b"\n" not in lines.content
    assert next(iter(lines.json().values())) == [[2.0, 4.0], [6.0, 9.0]]
    array = asked("text/html, application/x-npy;q=0.9")
    assert array.headers["content-type"] == "application/x-npy"
    assert np.load(io.BytesIO(array.content)).tolist() == [[2.0, 4.0], [6.0, 9.0]]
    csv = asked("text/csv")
    assert csv.headers["content-type"] == "text/csv"
    assert csv.text == "2.0,4.0\n6.0,9.0\n"


def test_several_outputs_are_no_table(client: httpx.Client) -> None:
    reply = invoke(client, CSV, "text/csv", accept="text/csv")
    assert reply.status_code == 400
    assert "room for one output" in reply.text


@named_by(
    "attributes",
    ("attributes", "status", "text"),
    [
        ("tfs-model-name=double,tfs-model-version=2", 400, ""),
        ("trace=1,tfs-model-name=digits,tfs-model-version=1", 200, ""),
        ("tfs-model-name=none", 404, "none"),
        ("tfs-model-version=99", 404, "99"),
        ("tfs-model-version=latest", 400, "expected a number"),
        ("tfs-method=explain", 400, "expected predict, classify, regress"),
        ("tfs-method=classify", 400, "classify"),
    ],
)
def test_custom_attributes_choose_model_version_and_method(
    client: httpx.Client, attributes: str, status: int, text: str
) -> None:
    reply = client.post("/invocations", json={"instances": ROWS}, headers={ATTRIBUTES: attributes})
    assert reply.status_code == status, reply.text
    assert text in reply.text


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        pytest.param("text/plain", CSV, 415, id="another type"),
        pytest.param("text/csv", "", 400, id="an empty CSV"),
        pytest.param("text/csv", "a,b", 400, id="a CSV of texts"),
        pytest.param("application/json", "{", 400, id="JSON that is cut"),
        pytest.param("application/x-npy", b"no", 400, id="npy that is none"),
        pytest.param("application/x-npy", npy(np.float32([1])), 400, id="npy of another shape"),
    ],
)
def test_a_body_that_cannot_be_used_has_its_status(
    client: httpx.Client, kind: str, body: str | bytes, status: int
) -> None:
    assert invoke(client, body, kind).status_code == status


def test_ping_and_the_status_of_all_versions_are_answered(client: httpx.Client) -> None:
    assert client.get("/ping").status_code == 200
    assert client.get("/invocations").status_code == 404
    states = client.get("/v1/models/double").json()["model_version_status"]
    assert {each["state"] for each in states} == {"AVAILABLE"}
    assert len(states) == 2  # every version


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        pytest.param("application/json", "{", "offset: 1", id="an object that is cut"),
        pytest.param("application/json", '[1, 2, "', "offset: 8", id="a text that is cut"),
        pytest.param(
            "application/json",
            '{"x": 1}\n{"x": }',
            "line 2: JSON Parse error",
            id="a line without a value",
        ),
        pytest.param(
            "application/jsonlines", "[1]\n{", "line 2: JSON Parse error", id="a line that is cut"
        ),
    ],
)
def test_the_place_of_wrong_json_is_told_by_the_body(
    client: httpx.Client, kind: str, body: str, text: str
) -> None:
    reply = invoke(client, body, kind)
    assert reply.status_code == 400
    assert text in reply.json()["error"]


@pytest.mark.parametrize(
    ("variables", "inside", "text"),
    [
        pytest.param({}, "", "no model; expected versions", id="no model"),
        pytest.param({"SAGEMAKER_MULTI_MODEL": "true"}, "m/1", "not served", id="several models"),
        pytest.param(
            {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "x"},
            "m/1",
            "x given; expected m",
            id="no such default",
        ),
        pytest.param(
            {"SAGEMAKER_BIND_TO_PORT": "x"}, "m/1", "SAGEMAKER_BIND_TO_PORT: x given", id="no port"
        ),
        pytest.param({}, "code/inference.py", "are not run", id="code beside the models"),
    ],
)
def test_a_model_that_cannot_be_had_ends_the_start_with_its_cause(
    tmp_path: Path, variables: dict[str, str], inside: str, text: str
) -> None:
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    with Process(
        "ie_serving", "serve", env={"SAGEMAKER_MODEL_DIR": str(tmp_path), **variables}
    ) as process:
        process.line(text)
        assert process.exit_code() == 2
