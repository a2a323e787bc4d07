"""No integer answer is silently wrong: exact, or refused, as the setting `integers` says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from ie_serving.core.tensors import DataType
from tests.functional.servers import Server
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import parameter, result, save

MODES = {"exact": {}, "fast": {"integers": "fast"}, "refuse": {"integers": "refuse"}}


def model(directory: Path) -> None:
    """Write what answered 16777216 < 16777217 by false, 16777217 mod 7 by 1, and so on."""
    a, b = parameter("a", [-1], DataType.INT32), parameter("b", [-1], DataType.INT32)
    first = op.constant(np.array([0], np.int64))
    results = [
        result("less", op.less(a, b)),
        result("equal", op.equal(a, b)),
        result("mod", op.floor_mod(a, b)),
        result("most", op.reduce_max(a, first)),
    ]
    save(directory / "m" / "1", results, [a, b])
    wide = parameter("a", [-1], DataType.INT64)
    next_one = op.add(wide, op.constant(np.array(1, np.int64)))
    sums = [result("next", next_one), result("sum", op.reduce_sum(wide, first))]
    save(directory / "wide" / "1", sums, [wide])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("integers")
    model(base)
    entries = [{"config": {"name": n, "base_path": str(base / "m"), **o}} for n, o in MODES.items()]
    entries.append({"config": {"name": "wide", "base_path": str(base / "wide")}})
    config = base / "c.json"
    config.write_text(json.dumps({"model_config_list": entries}))
    served = Server("ie_serving", "config", f"--config_path={config}", "--allow_unavailable_models")
    try:
        yield served.ready()
    finally:
        served.close()


def ask(server: Server, name: str, a: list[int], b: list[int]) -> Any:
    return server.rest.post(f"/v1/models/{name}:predict", json={"inputs": {"a": a, "b": b}})


CASES = [
    ([2**24], [2**24 + 1]),
    ([2**24 + 1, 5], [7, -7]),
    ([2**31 - 2, -(2**31), 7], [2**31 - 1, 1, 2**24 + 3]),
]


def expected(a: list[int], b: list[int]) -> dict[str, Any]:
    pairs = list(zip(a, b, strict=True))
    return {
        "less": [x < y for x, y in pairs],
        "equal": [x == y for x, y in pairs],
        "mod": [x % y for x, y in pairs],
        "most": max(a),
    }


@pytest.mark.parametrize(("a", "b"), CASES)
def test_integers_are_exact_over_rest(server: Server, a: list[int], b: list[int]) -> None:
    reply = ask(server, "exact", a, b)
    assert reply.json() == {"outputs": expected(a, b)}


@pytest.mark.parametrize(("a", "b"), CASES)
def test_integers_are_exact_over_grpc(server: Server, a: list[int], b: list[int]) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "exact"
    for name, values in (("a", a), ("b", b)):
        request.inputs[name].CopyFrom(tf.make_tensor_proto(np.array(values, np.int32)))
    outputs = server.prediction.Predict(request, PATIENCE_S).outputs
    found = {name: tf.make_ndarray(proto).tolist() for name, proto in outputs.items()}
    assert found == expected(a, b)


def test_a_divisor_of_0_is_refused_and_hurts_nobody(server: Server) -> None:
    reply = ask(server, "exact", [1, 2], [1, 0])
    assert (reply.status_code, "Integer division by zero" in reply.text) == (400, True), reply.text
    assert ask(server, "exact", *CASES[0]).json() == {"outputs": expected(*CASES[0])}


def test_what_32_bits_cannot_hold_is_refused(server: Server) -> None:
    """Before, 2147483647 + 1 of 64 bits was -2147483648."""
    sums = {"next": [2**31 - 1, -4], "sum": 2**31 - 7}
    for numbers, expected in (([2**31 - 2, -5], sums), ([2**31 - 1, -5], None)):
        reply = server.rest.post("/v1/models/wide:predict", json={"inputs": numbers})
        assert reply.status_code == (200 if expected else 400), reply.text
        assert reply.json().get("outputs") == expected
    assert "do not fit into 32 bits" in reply.text


def test_fast_leaves_the_engine_to_it(server: Server) -> None:
    """So whoever knows that numbers are small pays nothing."""
    reply = ask(server, "fast", [1, 5], [2, 3])
    assert reply.json() == {"outputs": expected([1, 5], [2, 3])}
    assert ask(server, "fast", *CASES[0]).json()["outputs"]["less"] == [False]


def test_refuse_says_which_operation_it_is(server: Server) -> None:
    text = server.rest.get("/v1/models/refuse").text
    assert "OpenVINO does not compute" in text
    assert "of i32 exactly" in text
    assert "set --integers to exact or fast" in text
