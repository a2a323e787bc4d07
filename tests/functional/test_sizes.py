"""No size or step that a client sends ends the process, or has it allocate without bound."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import DataType
from tests.functional.servers import Server
from tests.functional.storage.serving import several
from tests.unit.engines.openvino.models import parameter, result, save

DATA = [10, 11, 12, 13]
MANY = 2**31 - 1


def constant(value: Any, dtype: type = np.int64) -> Any:
    return op.constant(np.array(value, dtype))


def one(sizes: Any, place: int) -> Any:
    return op.gather(sizes, constant(place), constant(0))


def some(sizes: Any, place: int) -> Any:
    return op.gather(sizes, constant([place]), constant(0))


def stepped(x: Any, v: Any) -> Any:
    return op.strided_slice(x, some(v, 0), some(v, 1), some(v, 2), [0], [0])


Body = Callable[[Any, Any], Any]
CASES: dict[str, tuple[Body, list[int], Any, list[list[int]]]] = {
    "range": (
        lambda x, v: op.range(one(v, 0), one(v, 1), one(v, 2), "i32"),
        [7, 1, -2],
        [7, 5, 3],
        [[0, MANY, 1], [0, 5, 0], [MANY, -MANY, -1], [3, 3, 0]],
    ),
    "tile": (op.tile, [2], DATA * 2, [[MANY], [1 << 25], [-1]]),
    "broadcast": (
        lambda x, v: op.broadcast(one(x, 0), v),
        [2, 3],
        [[10] * 3] * 2,
        [[1 << 16, 1 << 16], [MANY, MANY]],
    ),
    "one_hot": (
        lambda x, v: op.one_hot(op.subtract(x, constant(10, np.int32)), one(v, 0), *ON_OFF, -1),
        [3],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]],
        [[MANY], [1 << 25]],
    ),
    "pad": (
        lambda x, v: op.pad(x, some(v, 0), some(v, 1), "constant"),
        [1, 2],
        [0, *DATA, 0, 0],
        [[MANY, 0], [1 << 26, 1 << 26]],
    ),
    "eye": (
        lambda x, v: op.eye(one(v, 0), one(v, 1), one(v, 2), "i32"),
        [2, 3, 1],
        [[0, 1, 0], [0, 0, 1]],
        [[1 << 16, 1 << 16, 0], [MANY, MANY, 0]],
    ),
    "strided_slice": (stepped, [3, 0, -2], [13, 11], [[0, 3, 0]]),
}
ON_OFF = constant(1, np.int32), constant(0, np.int32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("sizes")
    for name, (body, valid, *_) in CASES.items():
        x = parameter("x", [-1], DataType.INT32)
        sizes = parameter("sizes", [len(valid)], DataType.INT32)
        save(base / name / "1", [result("y", body(x, sizes))], [x, sizes])
    with Server(
        "ie_serving", *several(base / "c.json", {m: str(base / m) for m in CASES})
    ) as served:
        yield served.ready()


def ask(server: Server, name: str, sizes: list[int]) -> Any:
    body = {"inputs": {"x": DATA, "sizes": sizes}}
    return server.rest.post(f"/v1/models/{name}:predict", json=body)


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_a_request_asks_for_are_bounded(server: Server, name: str) -> None:
    """Before, a step of 0 ended the process, and a size was allocated, whatever it was."""
    _, valid, expected, refused = CASES[name]
    assert ask(server, name, valid).json() == {"outputs": expected}
    for sizes in refused:
        reply = ask(server, name, sizes)
        assert (reply.status_code, "is asked for" in reply.text) == (400, True), reply.text
        assert ask(server, name, valid).json() == {"outputs": expected}
    assert "worker ended" not in server.log
