"""Python code that answers for models, as clients and operators see it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2

from tests.functional.asking import predict_request
from tests.functional.servers import Server, rpc_refused
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import linear

ASKER = '''
"""Asks another model of the server, twice."""
NUMBERS = {"dtype": "float32", "shape": [-1]}
TEXT = {"dtype": "string", "shape": []}

class Asker:
    def metadata(self):
        return {"inputs": {"x": NUMBERS}, "outputs": {"y": NUMBERS, "who": TEXT}}

    def execute(self, inputs, ctx):
        if inputs["x"][0] < 0:
            ctx.models["nobody"].predict(inputs)
        if not ctx.time_left():
            raise TimeoutError("no deadline")
        once = ctx.models["scale"].predict(inputs)["y"]
        again = ctx.models("scale", version=1).predict({"x": once.tolist()})
        who = ctx.headers.get("x-user", "?")
        return {"y": again["y"], "who": f"{ctx.request_id} {who}"}
'''
LIMITS = """
loads = []
class Limits:
    def load(self, ctx):
        loads.append(ctx.version)
        self.update(ctx.params)
    def metadata(self):
        number = {"dtype": "int64", "shape": []}
        return {"inputs": {"x": number}, "outputs": {"limit": number, "loads": number}}
    def update(self, params):
        if params["limit"] < 0:
            raise ValueError("below 0")
        self.limit = params["limit"]
    def execute(self, inputs):
        return {"limit": self.limit, "loads": len(loads)}
"""
SCALE = """
import logging
import threading
import numpy as np

def metadata():
    numbers = {"dtype": np.float32, "shape": [-1]}
    return {"inputs": {"x": numbers}, "outputs": {"y": numbers}}

def scale(x, params):
    logging.info("root of %s", params["factor"])
    logging.getLogger("mine").info("mine of %s", params["factor"])
    logging.getLogger(__name__).info("module of %s", params["factor"])
    logging.getLogger("mine").debug("debug of %s", params["factor"])
    return x * np.float32(params["factor"])

def broken(x):
    return {}[int(x[0])]

def hangs(x):
    threading.Event().wait()
"""
BODIES = """
TEXT = {"dtype": "string", "shape": []}

class Bodies:
    def metadata(self):
        return {"inputs": {"body": TEXT}, "outputs": {"body": TEXT, "content_type": TEXT}}
    def execute(self, inputs, ctx):
        return inputs["body"].item()[::-1], ctx.headers["content-type"]

class Json:
    def metadata(self):
        return {"inputs": {"body": TEXT}, "outputs": {"found": {"dtype": "json"}}}
    def execute(self, inputs):
        return {"found": [len(inputs["body"].item()), None]}
"""

HOOKS = """
def init_hook(ctx, **params):
    return params["names"].split(",")

def metadata():
    return {
        "inputs": {"cm": {"dtype": "float32", "shape": [-1, 4]}},
        "outputs": {
            "species": {"dtype": "string", "shape": [-1]},
            "best": {"dtype": "float32", "shape": [-1]},
        },
    }

def preprocess(inputs, ctx):
    ctx.best = inputs["cm"].max(axis=1)
    return {"x": inputs["cm"] * 10}

def postprocess(outputs, ctx, **kwargs):
    names = [ctx.global_ctx[index] for index in outputs["y"].argmax(axis=1)]
    return {"species": names, "best": ctx.best}
"""
CALLED = """
import time
from concurrent.futures import ThreadPoolExecutor

helper = ThreadPoolExecutor(1)

def process(inputs, ctx):
    deadline = helper.submit(lambda: ctx.deadline).result()
    left = -1.0 if deadline is None else deadline - time.time()
    return {"left": left, "who": ctx.headers.get("x-user", "?")}
"""

REST_TIMEOUT_S = 30
"""Default of `--rest_timeout_seconds`."""


def write(root: Path) -> Path:
    models: dict[str, dict[str, Any]] = {
        "risk": {"kernel": "kernel.py"},
        "limits": {"kernel": "limits.py", "params": {"limit": 1}},
        "asker": {"kernel": "asker.py:Asker"},
        "scale": {"kernel": "kernels/scale.py:scale", "params": {"factor": 3}},
        "apart": {
            "kernel": "kernels/scale.py:scale",
            "params": {"factor": 4},
            "isolation": "process",
        },
        "broken": {"kernel": "kernels/scale.py:broken"},
        "hangs": {"kernel": "kernels/scale.py:hangs", "timeout_ms": 200},
        "lost": {"kernel": "no.py:nothing"},
        "failing": {"kernel": "kernels/failing.py:nothing"},
        "itself": {"kernel": "asker.py:Asker"},
        "bodies": {"kernel": "kernels/bodies.py:Bodies"},
        "json": {"kernel": "kernels/bodies.py:Json", "isolation": "process"},
        "iris": {"hooks": "hooks.py", "params": {"names": "a,b,c,d"}},
        "called": {"hooks": "called.py"},
    }
    for name in models:
        (root / name / "1").mkdir(parents=True)
    (root / "asker/1/asker.py").write_text(ASKER)
    for name in ("iris", "called"):
        linear(root / name / "1" / "model", 2.0)
        for part in (root / name / "1/model").iterdir():
            part.rename(root / name / "1" / part.name)
    (root / "called/1/called.py").write_text(CALLED)
    (root / "iris/1/hooks.py").write_text(HOOKS)
    (root / "risk/1/kernel.py").write_text(printed(r"```python\n(.*?)```"))
    (root / "limits/1/limits.py").write_text(LIMITS)
    (root / "kernels").mkdir()
    (root / "kernels/scale.py").write_text(SCALE)
    (root / "kernels/failing.py").write_text("raise ValueError('as it is')")
    (root / "kernels/bodies.py").write_text(BODIES)
    (root / "itself/1/asker.py").write_text(ASKER.replace('"scale"', '"itself"'))
    entries = [{"config": {"name": n, "base_path": n, **own}} for n, own in models.items()]
    file = root / "config.json"
    file.write_text(json.dumps({"model_config_list": entries}))
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[Server]:
    flags = ("--allow_python", "--ready_after_seconds=0")
    with Server("ie_serving", "config", f"--config_path={file}", *flags) as server:
        yield server.ready()


PAGE = Path(__file__).parents[2] / "docs" / "guide" / "own-code.md"
HEADING = "## From ten lines of Python to a service"


def printed(pattern: str, heading: str = HEADING) -> str:
    """Find something in a section of the page."""
    section = PAGE.read_text().partition(heading)[2].partition("\n## ")[0]
    found = re.search(pattern, section, re.DOTALL)
    assert found, pattern
    return found[1]


def ask(server: Server, model: str, x: Any, **headers: str) -> Any:
    body = {"inputs": {"x": x}}
    return server.rest.post(f"/v1/models/{model}:predict", json=body, headers=headers)


def tensor_of(number: float) -> Any:
    tensor = tensor_pb2.TensorProto(dtype=1, tensor_content=np.float32(number).tobytes())
    tensor.tensor_shape.dim.add().size = 1
    return tensor


def test_a_kernel_asks_another_model_and_knows_its_caller(server: Server) -> None:
    found = ask(server, "asker", [1.0, 2.0], **{"X-Request-Id": "r7", "X-User": "ann"})
    assert found.json() == {"outputs": {"y": [9.0, 18.0], "who": "r7 ann"}}


def test_grpc_tells_metadata_and_deadline(server: Server) -> None:
    request = predict_request("asker", x=tensor_of(2.0))
    x = request.inputs["x"]
    metadata = (("x-request-id", "r8"), ("x-user", "bob"))
    reply = server.prediction.Predict(request, PATIENCE_S, metadata=metadata)
    assert list(reply.outputs["who"].string_val) == [b"r8 bob"]
    x.tensor_content = np.float32(-2).tobytes()
    with pytest.raises(grpc.RpcError) as raised:
        server.prediction.Predict(request, PATIENCE_S)
    # A fault of the kernel's own: its client has named no such model.
    assert raised.value.code() is grpc.StatusCode.INTERNAL
    assert "kernel Asker failed: NotFound: " in raised.value.details()
    server.line(r"ctx\.models\[\"nobody\"\]\.predict")


def test_hooks_know_the_deadline_wherever_they_run_and_ask(server: Server) -> None:
    """The first call is in a thread of the version, later ones are on the event loop."""
    request = predict_request("called", x=tensor_of(2.0))
    for _ in range(3):
        reply = server.prediction.Predict(request, PATIENCE_S, metadata=(("x-user", "ann"),))
        left = np.frombuffer(reply.outputs["left"].tensor_content, np.float64).item()
        assert 0 < left <= PATIENCE_S + 1  # gRPC rounds up
        assert list(reply.outputs["who"].string_val) == [b"ann"]
        found = ask(server, "called", [1.0], **{"X-User": "bob"}).json()["outputs"]
        assert (0 < found["left"] <= REST_TIMEOUT_S, found["who"]) == (True, "bob")


def test_over_grpc_a_kernel_that_asks_itself_does_not_wait_for_ever(server: Server) -> None:
    request = predict_request("itself", x=tensor_of(2.0))
    with rpc_refused("INTERNAL", "asked by a kernel that it waits for itself"):
        server.prediction.Predict(request, PATIENCE_S)


@pytest.mark.parametrize("body", [b'{"a": 1}', b"\xff\0", b""])
def test_any_body_goes_to_a_kernel_that_takes_bytes(server: Server, body: bytes) -> None:
    kind = {"content-type": "image/x-mine"}
    found = server.rest.post("/v1/models/bodies:invoke", content=body, headers=kind)
    assert (found.status_code, found.content) == (200, body[::-1])
    assert found.headers["content-type"] == "image/x-mine"
    found = server.rest.post("/v1/models/json/versions/1:invoke", content=body)
    assert (found.json(), found.headers["content-type"]) == ([len(body), None], "application/json")


def test_a_model_that_takes_no_bytes_says_so(server: Server) -> None:
    found = server.rest.post("/v1/models/scale:invoke", content=b"1")
    assert found.status_code == 400
    assert "it takes no bytes" in found.json()["error"]
    assert server.rest.post("/v1/models/nobody:invoke").status_code == 404


def test_json_is_a_value_over_rest_and_a_string_over_grpc(server: Server) -> None:
    found = server.rest.post("/v1/models/json:predict", json={"inputs": "abc"})
    assert found.json() == {"outputs": [3, None]}
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "json"
    request.inputs["body"].dtype = 7
    request.inputs["body"].string_val.append(b"abcd")
    reply = server.prediction.Predict(request, PATIENCE_S)
    assert list(reply.outputs["found"].string_val) == [b"[4, null]"]


def test_an_exception_is_told_without_a_traceback(server: Server) -> None:
    found = ask(server, "broken", [1.0])
    assert (found.status_code, found.json()) == (
        500,
        {"error": "kernel broken failed: KeyError: 1"},
    )
    server.line(r"return \{\}\[int\(x\[0\]\)\]")


def test_a_kernel_that_hangs_costs_its_neighbours_nothing(server: Server) -> None:
    found = ask(server, "hangs", [1.0])
    assert found.status_code == 504
    assert "within 200 ms" in found.json()["error"]
    assert ask(server, "scale", [1.0]).json() == {"outputs": [3.0]}


def test_a_kernel_that_is_not_there_is_its_models_status(server: Server) -> None:
    status = server.rest.get("/v1/models/lost").json()["model_version_status"][0]["status"]
    assert "kernel no.py is neither" in status["error_message"]


def test_log_lines_of_a_version_name_model_and_version(server: Server) -> None:
    """Also by an engine, or by the thread that keeps its process: neither knows them."""
    for event in ("model process started", "kernel failed to load", "model compiled"):
        (line, *_) = [each for each in server.lines if f" {event} " in each]
        assert re.search(r" model=\w+ version=1$", line), line


def test_a_kernel_in_a_process_of_its_own_answers(server: Server) -> None:
    assert ask(server, "apart", [1.0, 2.0]).json() == {"outputs": [4.0, 8.0]}


@pytest.mark.parametrize(("model", "factor"), [("scale", 3), ("apart", 4)])
def test_lines_that_a_kernel_logs_at_info_are_in_the_log(
    server: Server, model: str, factor: int
) -> None:
    assert ask(server, model, [1.0]).json() == {"outputs": [float(factor)]}
    for logger in ("root", "mine", "module"):
        server.line(rf" - INFO - {logger} of {factor}")
    assert "debug of" not in server.log


def test_the_metadata_is_the_kernels(server: Server) -> None:
    found = server.rest.get("/v1/models/scale/metadata").json()["metadata"]["signature_def"]
    outputs = found["signatureDef"]["serving_default"]["outputs"]
    assert outputs["y"]["dtype"] == "DT_FLOAT"


def test_the_ten_lines_of_the_page_are_served(server: Server) -> None:
    body, path = printed(r"curl -d '([^']*)'"), printed(r"localhost:8000(\S+)\n")
    expected = json.loads(printed(r"```json\n(.*?)```"))
    assert server.rest.post(path, content=body).json() == expected


def test_changed_params_are_taken_or_load_the_model_anew(server: Server, file: Path) -> None:
    def change(model: str, **params: Any) -> None:
        top = json.loads(file.read_text())
        for entry in top["model_config_list"]:
            if entry["config"]["name"] == model:
                entry["config"]["params"] = params
        file.write_text(json.dumps(top))
        # It returns when what is new serves, and fails for the model whose kernel is not there.
        assert "no.py is neither" in server.rest.post("/v1/config/reload").text

    def limits() -> Any:
        return server.rest.post("/v1/models/limits:predict", json={"inputs": 0}).json()["outputs"]

    assert limits() == {"limit": 1, "loads": 1}
    change("limits", limit=2)
    assert limits() == {"limit": 2, "loads": 1}
    change("limits", limit=-1)
    server.line("parameters refused model=limits cause=\"ValueError\\('below 0'\\)\"")
    assert limits() == {"limit": 2, "loads": 1}
    change("scale", factor=5)
    assert ask(server, "scale", [1.0]).json() == {"outputs": [5.0]}


def test_hooks_say_what_clients_send_and_get(server: Server) -> None:
    rows = [[1.0, 2.0, 3.0, 4.0], [9.0, 1.0, 1.0, 1.0]]
    reply = server.rest.post("/v1/models/iris:predict", json={"instances": rows})
    assert reply.json() == {
        "predictions": [{"species": "d", "best": 4.0}, {"species": "a", "best": 9.0}]
    }
    metadata = server.rest.get("/v1/models/iris/metadata").text
    assert '"cm"' in metadata and '"species"' in metadata and '"x"' not in metadata
