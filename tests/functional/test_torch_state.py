"""TorchScript answers over both as PyTorch; where it keeps state, as its first call."""

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exporting import export
from tests.functional.asking import predict_request, predicted
from tests.functional.servers import ROOT, Server
from tests.functional.storage.serving import several
from tests.process import Process, output_of

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed; see `make drivers`"
)

MAKE_TORCH = ROOT / "tests" / "functional" / "formats" / "make_torch.py"
X, RATE = np.array([[0, 1, 2], [3, 4, 5]], np.float32), np.array(16000, np.int64)
INPUTS = {
    "x": {"dtype": "float32", "shape": [-1, 3]},
    "rate": {"dtype": "int64", "shape": []},
}
OUTPUTS = {"output": {"dtype": "float32", "shape": [-1, 2]}}
ISOLATED = "served by PyTorch; heard as the file has them, for each request"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = export(MAKE_TORCH, tmp_path_factory.mktemp("made"))
    for name, file in (("voice", "voice.pt"), ("reader", "reader.torchscript")):
        (root / name / "1").mkdir(parents=True)
        (root / f"{name}.pt").rename(root / name / "1" / file)
    return root


def flags(root: Path, **params: Any) -> tuple[str, ...]:
    entry = {"base_path": str(root / "voice"), "params": params}
    return tuple(several(root / "c.json", {"voice": entry}))


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    with Server("ie_serving", *flags(root, inputs=INPUTS, outputs=OUTPUTS)) as server:
        yield server.ready()


STATE = {"dtype": "float32", "shape": [1, -1, 2]}
READER = {
    "x": {"dtype": "float32", "shape": [-1, -1, 3]},
    "hc_0": STATE,
    "hc_1": STATE,
    "texts": {"dtype": "string", "shape": [-1]},
    "k": {"dtype": "int64", "shape": []},
}


def test_structures_and_texts_pass_over_both(root: Path) -> None:
    entry = {"base_path": str(root / "reader"), "params": {"inputs": READER}}
    state = np.ones((1, 1, 2), np.float32)
    sent = {"x": np.ones((1, 4, 3), np.float32), "hc_0": state, "hc_1": state}
    with Server("ie_serving", *several(root / "r.json", {"reader": entry})) as server:
        server.ready()
        request = predict_request("reader", **sent, texts=[b"a"], k=np.array(3, np.int64))
        found = predicted(server, request)
        rows = {name: array.tolist() for name, array in sent.items()}
        body = json.dumps({"inputs": {**rows, "texts": ["a"], "k": 3}})
        reply = server.rest.post("/v1/models/reader:predict", content=body).json()["outputs"]
    np.testing.assert_allclose(found["read_0"], np.load(root / "reader.npy"), rtol=1e-5)
    np.testing.assert_allclose(reply["read_0"], np.load(root / "reader.npy"), rtol=1e-5)
    assert (found["read_1"].tolist(), int(found["read_2"])) == ([b"A"], 1)
    assert (reply["read_1"], reply["read_2"]) == (["A"], 1)


def test_each_request_begins_with_the_state_of_the_file(server: Server, root: Path) -> None:
    first, second = np.load(root / "voice.npy")
    assert np.abs(first - second).max() > 0.1, "the state tells in the second call"
    body = json.dumps({"inputs": {"x": X.tolist(), "rate": int(RATE)}})
    for _ in range(3):
        (found,) = predicted(server, predict_request("voice", x=X, rate=RATE)).values()
        np.testing.assert_allclose(found, first, rtol=1e-6)
        reply = server.rest.post("/v1/models/voice:predict", content=body)
        np.testing.assert_allclose(reply.json()["outputs"], first, rtol=1e-6)


def test_a_request_that_fails_leaves_no_state(server: Server, root: Path) -> None:
    wrong = json.dumps({"inputs": {"x": X.tolist(), "rate": 44100}})
    reply = server.rest.post("/v1/models/voice:predict", content=wrong)
    assert (reply.status_code, "the rate is not supported" in reply.text) == (400, True)
    (found,) = predicted(server, predict_request("voice", x=X, rate=RATE)).values()
    np.testing.assert_allclose(found, np.load(root / "voice.npy")[0], rtol=1e-6)


def test_check_tells_what_becomes_of_the_state(root: Path) -> None:
    told = output_of("ie_serving", "check", *flags(root, inputs=INPUTS, outputs=OUTPUTS))
    assert told[-1].strip() == f"serving_default: {ISOLATED}"


def test_check_tells_first_to_give_the_outputs_of_a_module_that_refuses_zeros(root: Path) -> None:
    with Process("ie_serving", "check", *flags(root, inputs=INPUTS)) as command:
        assert command.exit_code() == 1
    advice = r"the rate is not supported\s+give its outputs by params\.outputs, or the sizes"
    assert re.search(advice, command.log)
