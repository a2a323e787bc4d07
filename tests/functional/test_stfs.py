"""The commands of simple_tensorflow_serving, as its users know them."""

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

from ie_serving.core.values.errors import WHOLE
from tests.certificates import Authority
from tests.functional.test_clients import answer
from tests.onnx_models import Of, save_onnx
from tests.process import PATIENCE_S, Process, free_ports
from tests.tables import named_by
from tests.unit.engines.pmml.documents import NAMES, classifier

READY = "REST server listens on port"
USER = ("admin", "a-long-one")
DATA = {"keys": [[11.0], [2.0]], "features": 2 * [9 * [1]]}
"""Of the documentation."""
EXPECTED = {"keys": [[11], [2]], "softmax": 2 * [[0.5, 0.5]], "prediction": [0, 0]}
FLOWER = [5.1, 3.5, 1.4, 0.2]


class Old(Process):
    """A server by the old command, and a client of it."""

    def __init__(
        self, *argv: str, command: str = "simple_tensorflow_serving", **client: Any
    ) -> None:
        (self.port,) = free_ports(1)
        super().__init__(command, f"--port={self.port}", "--host=127.0.0.1", *argv)
        self.line(READY)
        self.url = f"http{'s' if client else ''}://localhost:{self.port}"
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False, **client)

    def close(self) -> None:
        self.http.close()
        super().close()


def template(directory: Path) -> None:
    """Write what the documentation's model of tables answers: keys, and two equal classes."""
    keys, prediction = Of(TensorProto.INT32, ["rows", 1]), Of(TensorProto.INT64, ["rows"])
    inputs = {"keys": keys, "features": ["rows", 9]}
    outputs = {"keys_out": keys, "softmax": ["rows", 2], "prediction": prediction}
    nodes = [
        helper.make_node("Add", ["keys", "zero"], ["keys_out"]),
        helper.make_node("MatMul", ["features", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["softmax"], axis=1),
        helper.make_node("ArgMax", ["softmax"], ["prediction"], axis=1, keepdims=0),
    ]
    constants = {"weights": np.ones((9, 2), np.float32), "zero": np.int32([0])}
    save_onnx(directory / "1" / "model.onnx", nodes, inputs, outputs, opset=13, **constants)
    names = {"inputs": {}, "outputs": {"keys_out": "keys"}}
    (directory / "1" / "mapping_config.json").write_text(json.dumps(names))


def pictures(directory: Path) -> None:
    """Write a model of pictures of 2 x 2: the greatest red of each."""
    nodes = [
        helper.make_node("ReduceMax", ["input_image"], ["colours"], axes=[1, 2], keepdims=0),
        helper.make_node("Gather", ["colours", "first"], ["red"], axis=1),
    ]
    file, picture = directory / "1" / "model.onnx", {"input_image": ["n", 2, 2, 3]}
    save_onnx(file, nodes, picture, {"red": ["n"]}, opset=13, first=np.int64(0))


def fitted() -> Any:
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True))


def iris(file: Path) -> Any:
    import joblib

    model = fitted()
    joblib.dump(model, file)
    return model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("old")
    template(root / "template")
    pictures(root / "pictures")
    return root


@pytest.fixture(scope="module")
def plain(models: Path) -> Iterator[Old]:
    entries = [
        {"name": "default", "base_path": str(models / "template"), "platform": "tensorflow"},
        {"name": "gone", "base_path": str(models / "gone")},
    ]
    if find_spec("pypmml") and shutil.which("java"):
        file = models / "iris.pmml"
        file.write_text(classifier(fitted()))
        entries.append({"name": "pmml", "base_path": str(file), "platform": "pmml"})
    if find_spec("sklearn"):
        file = models / "model.joblib"
        iris(file)
        entries.append({"name": "iris", "base_path": str(file), "platform": "scikitlearn"})
    config = models / "model_config_file.json"
    config.write_text(json.dumps({"model_config_list": entries}))
    with Old(f"--model_config_file={config}", command="stfs") as server:
        yield server


@pytest.fixture(scope="module")
def closed(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Old]:
    """One user, over TLS."""
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory)
    pair = authority.server()
    argv = (
        f"--model_base_path={models / 'pictures'}",
        *("--enable_auth=True", f"--auth_username={USER[0]}", f"--auth_password={USER[1]}"),
        *("--enable_ssl=True", f"--secret_pem={pair.certificate}", f"--secret_key={pair.key}"),
    )
    context = ssl.create_default_context(cafile=authority.path)
    with Old(*argv, verify=context) as server:
        server.authority = authority  # type: ignore[attr-defined]
        yield server


@pytest.mark.parametrize(
    "beside",
    [{}, {"model_name": "default", "model_version": 1}, {"signature_name": "serving_default"}],
)
def test_a_post_is_answered_as_in_the_readme(plain: Old, beside: dict[str, Any]) -> None:
    """README.md, "Multiple Models" and "Supported Client"."""
    reply = plain.http.post("/", json={"data": DATA, **beside})
    assert reply.status_code == 200, reply.text
    assert reply.json() == EXPECTED
    assert reply.headers["access-control-allow-origin"] == "*"


def test_curl_is_answered_as_in_the_readme(plain: Old) -> None:
    """README.md, "Supported Client": bash."""
    argv = ["curl", "-sH", "Content-Type: application/json", "-X", "POST", "-d"]
    body = json.dumps({"data": DATA})
    run = subprocess.run([*argv, body, plain.url], capture_output=True, check=True, timeout=30)
    assert json.loads(run.stdout) == EXPECTED


@pytest.mark.parametrize("language", ["python", "bash", "javascript"])
def test_generated_clients_run(plain: Old, tmp_path: Path, language: str) -> None:
    """README.md, "Generated Client"."""
    page = plain.http.get("/v1/models/default/gen_client", params={"language": language})
    found = answer(tmp_path, language, page.text)
    assert found == {**EXPECTED, "keys": [[1], [1]]}


@pytest.mark.skipif(not find_spec("pypmml") or not shutil.which("java"), reason="pypmml, or Java")
def test_pmml_answers_a_flat_record(plain: Old) -> None:
    """README.md, "Supported Models", PMML: one flat record."""
    record = dict(zip(NAMES, FLOWER, strict=True))
    reply = plain.http.post("/", json={"model_name": "pmml", "data": record})
    assert reply.status_code == 200, reply.text
    assert reply.json() == {"result": {"species": "setosa"}}


def test_generated_data_are_answered(plain: Old) -> None:
    """README.md, "Generated Client"."""
    made = plain.http.get("/v1/models/default/gen_json").json()
    assert made == {"data": {"keys": [[1], [1]], "features": 2 * [9 * [1.0]]}}
    assert plain.http.post("/", json=made).json()["keys"] == [[1], [1]]


def test_the_list_of_models_describes_each_model(plain: Old, models: Path) -> None:
    listed = {each["model_name"]: each for each in plain.http.get("/v1/models").json()}
    shown = plain.http.get("/v1/models/default").json()
    assert listed["default"] == shown
    signature = shown.pop("model_signature")
    assert shown == {
        "model_name": "default",
        "model_base_path": str(models / "template"),
        "model_version_list": [1],
        "platform": "tensorflow",
    }
    assert {"name": "keys", "dtype": 3, "shape": [-1, 1]} in signature["inputs"]
    assert listed["gone"]["model_version_list"] == []
    page = plain.http.get("/")
    assert page.headers["content-type"] == "text/html"
    assert "&quot;softmax&quot; float (-1, 2)" in page.text
    assert plain.http.get("/health").text == "healthy"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        pytest.param(
            {"data": {"keys": [[1]]}}, 400, "lacks features", id="a feature that is missing"
        ),
        pytest.param({"keys": [[1]]}, 400, 'the key "data" is missing', id="no data"),
        pytest.param(
            {"data": DATA, "model_name": "nobody"}, 404, "no such model", id="no such model"
        ),
        pytest.param(
            {"data": DATA, "model_name": "gone"},
            404,
            "no version of it is AVAILABLE",
            id="a model that is gone",
        ),
        pytest.param(
            {"data": DATA, "model_version": 2}, 404, "available versions: 1", id="no such version"
        ),
        pytest.param({"data": DATA, "signature_name": "s"}, 400, "s", id="no such signature"),
    ],
)
def test_a_wrong_request_is_refused_with_its_own_code(
    plain: Old, body: Any, status: int, words: str
) -> None:
    """Each with its own code, where the original has 500 or 200."""
    reply = plain.http.post("/", json=body)
    assert reply.status_code == status
    assert words in reply.headers.get(WHOLE, reply.json()["error"])


def test_a_browser_may_ask_before_it_asks(plain: Old, closed: Old) -> None:
    """It sends no credentials with that."""
    for server in (plain, closed):
        reply = server.http.options("/", headers={"origin": "https://a.test"})
        assert reply.status_code == 200
        assert "POST" in reply.headers["access-control-allow-methods"]


@pytest.mark.parametrize(
    "target", ["nobody", "nobody/gen_json", "nobody/gen_client", "gone/gen_json"]
)
def test_unknown_models_are_not_found(plain: Old, target: str) -> None:
    assert plain.http.get(f"/v1/models/{target}").status_code == 404


def test_an_unknown_language_is_answered_with_the_list(plain: Old) -> None:
    reply = plain.http.get("/v1/models/default/gen_client?language=lisp")
    assert reply.status_code == 400
    assert "python, bash, javascript, go, java" in reply.json()["error"]


def test_the_api_of_tensorflow_serving_is_there_too(plain: Old) -> None:
    whole = {"keys": [[11], [2]], "features": DATA["features"]}
    reply = plain.http.post("/v1/models/default:predict", json={"inputs": whole})
    assert reply.json()["outputs"] == EXPECTED
    assert plain.http.get("/v1/models/default/metadata").status_code == 200


@pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")
@pytest.mark.parametrize("data", [[FLOWER], {"data": [FLOWER]}])
def test_scikit_learn_answers_with_its_three_results(plain: Old, models: Path, data: Any) -> None:
    """README.md, "Supported Models"."""
    import joblib

    model = joblib.load(models / "model.joblib")
    reply = plain.http.post("/", json={"model_name": "iris", "model_version": 1, "data": data})
    found = reply.json()
    assert found["predict"] == model.predict([FLOWER]).tolist()
    np.testing.assert_allclose(found["predict_proba"], model.predict_proba([FLOWER]), 1e-12)
    np.testing.assert_allclose(found["predict_log_proba"], model.predict_log_proba([FLOWER]), 1e-6)


ROUTES = [
    ("POST", "/"),
    ("GET", "/"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/default"),
    ("GET", "/v1/models/default/gen_json"),
    ("GET", "/v1/models/default/gen_client"),
    ("GET", "/v1/models/default/metadata"),
    ("POST", "/v1/models/default:predict"),
    ("POST", "/v1/config/reload"),
    ("GET", "/metrics"),
    ("GET", "/ping"),
    ("GET", "/v2/health/live"),
    ("GET", "/nowhere"),
]


@named_by("method target", ("method", "target"), ROUTES)
@pytest.mark.parametrize("user", [None, (USER[0], "wrong"), ("wrong", USER[1])])
def test_strangers_are_asked_who_they_are(
    closed: Old, method: str, target: str, user: tuple[str, str] | None
) -> None:
    reply = closed.http.request(method, target, auth=user)
    assert reply.status_code == 401
    assert "Basic" in reply.headers["www-authenticate"]
    if user is None:
        assert "send user and password (`Authorization: Basic`)" in reply.text


def test_health_is_open_to_all(closed: Old) -> None:
    assert closed.http.get("/health").text == "healthy"


def test_an_image_of_the_user_is_answered(closed: Old, tmp_path: Path) -> None:
    """README.md, "Image Model" and "Authentication": `curl -F 'image=@...'`, by its user."""
    opened = BytesIO()
    Image.new("RGB", (2, 2), (200, 10, 30)).save(opened, "PNG")
    (tmp_path / "mew.png").write_bytes(opened.getvalue())
    fields = ("-F", "image=@./mew.png", "-F", "model_version=1")
    authority = str(closed.authority.path)  # type: ignore[attr-defined]
    argv = ("curl", "-s", "--cacert", authority, "-u", ":".join(USER), "-X", "POST", *fields)
    run = subprocess.run(
        [*argv, closed.url], cwd=tmp_path, capture_output=True, check=True, timeout=30
    )
    found = json.loads(run.stdout)
    assert found == {"red": [200.0]}, "the first channel is red, as TensorFlow's models have it"
    listed = closed.http.get("/v1/models", auth=USER).json()
    assert [each["model_name"] for each in listed] == ["default"]
    made = closed.http.get("/v1/models/default/gen_client", auth=USER).text
    assert f"https://localhost:{closed.port}/" in made
