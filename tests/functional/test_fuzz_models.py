"""Values by the thousand for models that compute with them: the worker's process is the witness.

`make fuzz` runs it for as long as FUZZ_SECONDS says. The models have shapes that depend on values,
indices, sizes and arithmetic of integers; a failure names the seed that finds it again.
"""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import DataType
from tests.functional.cost import forget_peaks, peak
from tests.functional.fuzzing import SECONDS, marks
from tests.functional.servers import Server
from tests.functional.storage.serving import several
from tests.unit.engines.openvino.models import parameter, result, save

pytestmark = marks

MOST_S = 20.0
"""Seconds that one answer may take, of millions of numbers among them."""
MOST_BYTES = 2 << 30
DATA = [float(i) for i in range(5)]
GOOD = [1, 3, 2]
ODD = [0, -1, 1, 2, 5, -5, -6, 1000, 2**24 + 1, 2**31 - 1, -(2**31)]
Body = Callable[[Any, Any], Any]


def constant(value: Any, dtype: type = np.int64) -> Any:
    return op.constant(np.array(value, dtype))


def one(v: Any, place: int) -> Any:
    return op.gather(v, constant(place), constant(0))


def positive(v: Any) -> Any:
    found = op.squeeze(op.non_zero(op.relu(v), "i64"), constant([0]))
    return op.gather(v, found, constant(0))


def table(v: Any) -> Any:
    return op.gather(constant([[2], [1 << 28]]), one(v, 0), constant(0))


MODELS: dict[str, Body] = {
    "gather": lambda x, v: op.gather(x, v, constant(0)),
    "gather_elements": lambda x, v: op.gather_elements(x, v, 0),
    "scatter": lambda x, v: op.scatter_elements_update(
        x, v, constant([7, 8, 9], np.float32), constant(0)
    ),
    "slice": lambda x, v: op.slice(x, *(op.unsqueeze(one(v, i), constant(0)) for i in range(3))),
    "range": lambda _, v: op.range(*(one(v, i) for i in range(3)), "i32"),
    "table": lambda x, v: op.broadcast(one(x, 0), table(v)),
    "topk": lambda _, v: op.topk(positive(v), constant(1), 0, "max", "value").output(0),
    "reshape": lambda x, v: op.reshape(op.tile(x, constant([6])), v, False),
    "tile": lambda _, v: op.shape_of(op.tile(positive(v), op.unsqueeze(one(v, 0), constant(0)))),
    "integers": lambda _, v: op.add(op.multiply(v, v), op.floor_mod(v, constant(7, np.int32))),
    "quotient": lambda _, v: op.divide(op.convert(v, "i64"), op.convert(positive(v), "i64")),
    "product": lambda _, v: op.matmul(
        op.reshape(op.convert(positive(v), "f32"), constant([1, -1]), False),
        constant(np.ones((3, 16)), np.float32),
        False,
        False,
    ),
    "shift": lambda _, v: op.bitwise_left_shift(v, v),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("models")
    for name, body in MODELS.items():
        x, v = parameter("x", [5]), parameter("v", [3], DataType.INT32)
        # Every input is read, also where the body does not.
        read = op.multiply(op.reduce_sum(x, constant([0])), constant(0, np.float32))
        y = op.add(op.convert(body(x, v), "f32"), read)
        save(base / name / "1", [result("y", y)], [x, v])
    models = several(base / "c.json", {name: str(base / name) for name in MODELS})
    with Server("ie_serving", *models) as server:
        yield server.ready()


def ask(server: Server, name: str, values: list[int]) -> tuple[int, str]:
    body = {"inputs": {"x": DATA, "v": values}}
    reply = server.rest.post(f"/v1/models/{name}:predict", json=body)
    return reply.status_code, reply.text


def test_values_get_the_same_answer_whatever_was_asked_before(server: Server) -> None:
    """The same values get the same answer, whatever was asked before; no process dies."""
    seed = random.randrange(1 << 32)
    chance, begun, count = random.Random(seed), time.monotonic(), 0
    pids, before = server.pids(), forget_peaks(server)
    good = {name: ask(server, name, GOOD) for name in MODELS}
    while time.monotonic() - begun < SECONDS:
        name = chance.choice(list(MODELS))
        values = [chance.choice(ODD) if chance.random() < 0.6 else g for g in GOOD]
        told = f"seed={seed} count={count} {name} {values}"
        began = time.monotonic()
        first = ask(server, name, values)
        assert time.monotonic() - began < MOST_S, told
        assert first[0] in (200, 400), told + first[1]
        assert ask(server, name, GOOD) == good[name], told
        assert ask(server, name, values) == first, told
        count += 1
    print(f"seed={seed} requests={3 * count}")
    assert server.pids() == pids, f"seed={seed}"
    assert "Traceback" not in server.log, f"seed={seed}"
    assert peak(server) - before < MOST_BYTES, f"seed={seed}"
