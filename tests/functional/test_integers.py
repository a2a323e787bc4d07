"""No answer is silently wrong: exact, or refused, as the setting `integers` says.

Integers and doubles, over both interfaces, against Python's own and OpenVINO called directly.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from ie_serving.core.values.tensors import DataType
from tests.functional.servers import Server, config_flag
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import parameter, result, save, unary

MODES = {"exact": {}, "fast": {"integers": "fast"}, "refuse": {"integers": "refuse"}}
OTHERS = ("wide", "doubles", "made_double")


def write(base: Path) -> None:
    """Write what answered 16777216 < 16777217 by false, 16777217 mod 7 by 1, and so on."""
    a, b = parameter("a", [-1], DataType.INT32), parameter("b", [-1], DataType.INT32)
    first = op.constant(np.array([0], np.int64))
    results = [
        result("less", op.less(a, b)),
        result("equal", op.equal(a, b)),
        result("mod", op.floor_mod(a, b)),
        result("most", op.reduce_max(a, first)),
    ]
    save(base / "m" / "1", results, [a, b])
    wide = parameter("a", [-1], DataType.INT64)
    next_one = op.add(wide, op.constant(np.array(1, np.int64)))
    sums = [result("next", next_one), result("sum", op.reduce_sum(wide, first))]
    save(base / "wide" / "1", sums, [wide])
    third = op.constant(np.float64(1 / 3))
    unary(base / "doubles" / "1", [-1], DataType.FP64, lambda x: op.multiply(x, third))
    unary(base / "made_double" / "1", [-1], DataType.INT64, lambda n: op.convert(n, "f64"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("integers")
    write(base)
    return base


@pytest.fixture(scope="module")
def server(base: Path) -> Iterator[Server]:
    entries = [{"name": name, "base_path": "m", **own} for name, own in MODES.items()]
    entries += [{"name": name, "base_path": name} for name in OTHERS]
    file = config_flag(base / "c.json", *entries)
    with Server("ie_serving", "config", file, "--allow_unavailable_models") as served:
        yield served.ready()


DTYPES = {"wide": np.int64, "doubles": np.float64, "made_double": np.int64}
Numbers = list[int] | list[float]


def over_grpc(server: Server, model: str, **inputs: Numbers) -> tuple[int, Any]:
    """Ask; give the code that REST would have, with the outputs by name or the error."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    for name, values in inputs.items():
        array = np.array(values, DTYPES.get(model, np.int32))
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
    try:
        outputs = server.prediction.Predict(request, PATIENCE_S).outputs
    except grpc.RpcError as error:
        codes = {grpc.StatusCode.INVALID_ARGUMENT: 400, grpc.StatusCode.NOT_FOUND: 404}
        return codes[error.code()], error.details()
    return 200, {name: tf.make_ndarray(proto).tolist() for name, proto in outputs.items()}


def over_rest(server: Server, model: str, **inputs: Numbers) -> tuple[int, Any]:
    reply = server.rest.post(f"/v1/models/{model}:predict", json={"inputs": inputs})
    if reply.status_code != 200:
        return reply.status_code, reply.json()["error"]
    outputs = reply.json()["outputs"]
    return 200, outputs if isinstance(outputs, dict) else {"y": outputs}


BOTH = pytest.mark.parametrize("ask", [over_grpc, over_rest])
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


def by_openvino(base: Path, model: str, x: Numbers) -> list[float]:
    """Ask OpenVINO without a server."""
    compiled = ov.Core().compile_model(base / model / "1" / "model.xml", "CPU")
    answer: np.ndarray = compiled(np.array(x, DTYPES[model]))[0]
    return answer.tolist()


@BOTH
@pytest.mark.parametrize(("a", "b"), CASES)
def test_integers_are_exact(server: Server, ask: Any, a: list[int], b: list[int]) -> None:
    assert ask(server, "exact", a=a, b=b) == (200, expected(a, b))


@BOTH
def test_a_divisor_of_0_is_refused_and_harms_no_other_request(server: Server, ask: Any) -> None:
    code, text = ask(server, "exact", a=[1, 2], b=[1, 0])
    assert (code, "Integer division by zero" in text) == (400, True), text
    a, b = CASES[0]
    assert ask(server, "exact", a=a, b=b) == (200, expected(a, b))


@BOTH
def test_a_number_that_32_bits_cannot_hold_is_refused(server: Server, ask: Any) -> None:
    """Before, 2147483647 + 1 of 64 bits was -2147483648."""
    sums = {"next": [2**31 - 1, -4], "sum": 2**31 - 7}
    assert ask(server, "wide", a=[2**31 - 2, -5]) == (200, sums)
    code, text = ask(server, "wide", a=[2**31 - 1, -5])
    assert (code, "do not fit into 32 bits" in text) == (400, True), text
    code, text = ask(server, "wide", a=[2**31, -5])
    assert (code, "computes int64 in 32 bits" in text) == (400, True), text


@BOTH
@pytest.mark.parametrize(
    ("model", "held", "beyond", "text"),
    [
        ("doubles", [0.5, 1e30, -7.0], [0.5, 1e300], "computes double in 32 bits"),
        ("made_double", [2**24, -5], [2**24 + 1, -5], "computes float64: send smaller ones"),
    ],
)
def test_doubles_that_a_float32_does_not_hold_are_refused(
    server: Server, base: Path, ask: Any, model: str, held: Numbers, beyond: Numbers, text: str
) -> None:
    assert ask(server, model, x=held) == (200, {"y": by_openvino(base, model, held)})
    code, found = ask(server, model, x=beyond)
    assert (code, text in found) == (400, True), found


@BOTH
def test_fast_leaves_the_engine_to_it(server: Server, ask: Any) -> None:
    """So a model whose numbers are known to be small pays nothing."""
    assert ask(server, "fast", a=[1, 5], b=[2, 3]) == (200, expected([1, 5], [2, 3]))
    a, b = CASES[0]
    assert ask(server, "fast", a=a, b=b)[1]["less"] == [False]


@BOTH
def test_refuse_serves_nothing(server: Server, ask: Any) -> None:
    assert ask(server, "refuse", a=[1], b=[2])[0] == 404


def test_refuse_says_which_operation_it_is(server: Server) -> None:
    (status,) = server.status("refuse")
    shown = server.rest.get("/v1/models/refuse").json()["model_version_status"][0]["status"]
    for text in (status.status.error_message, shown["error_message"]):
        assert "OpenVINO does not compute" in text
        assert "of i32 exactly" in text
        assert "set --integers to exact or fast" in text
