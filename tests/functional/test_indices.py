"""No index that a client sends crashes the server, or is answered with what lies elsewhere.

A real server, since OpenVINO's CPU plugin writes where a scatter points to and ends the process.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import DataType
from tests.functional.servers import Server
from tests.functional.storage.serving import several
from tests.unit.engines.openvino.models import parameter, result, save

DATA = [10.0, 11.0, 12.0, 13.0]
UPDATES = [1.0, 2.0]
FIRST = np.array(0, np.int64)
BEYOND = [[4, 0], [0, -5], [-10_000_000, 0], [2**31 - 1, -(2**31)]]
Body = Callable[[Any, Any, Any], Any]


def rows(indices: Any) -> Any:
    return op.unsqueeze(indices, op.constant(np.array([1], np.int64)))


def spread(values: Any) -> Any:
    """Repeat each number three times, as graph networks of PyTorch do with `expand`."""
    sizes = op.concat([op.shape_of(values), op.constant(np.array([3], np.int64))], 0)
    return op.broadcast(rows(values), sizes, broadcast_spec="BIDIRECTIONAL")


def first(wide: Any) -> Any:
    return op.reduce_max(wide, op.constant(np.array(1, np.int64)), False)


def gather_spread(x: Any, indices: Any, _: Any) -> Any:
    """Take from data that the same indices are added to, so that its sizes follow from both."""
    places = spread(indices)
    both = op.constant(np.array([0, 1], np.int64))
    nothing = op.multiply(op.reduce_sum(op.convert(places, "f32"), both), np.float32(0))
    return first(op.gather_elements(op.add(spread(x), nothing), places, 0))


def scatter_spread(x: Any, indices: Any, updates: Any) -> Any:
    wide = [spread(each) for each in (x, indices, updates)]
    return first(op.scatter_elements_update(*wide, op.constant(FIRST)))


TAKE: dict[str, Body] = {
    "gather": lambda x, i, _: op.gather(x, i, op.constant(FIRST)),
    "gather_elements": lambda x, i, _: op.gather_elements(x, i, 0),
    "gather_spread": gather_spread,
    "gather_nd": lambda x, i, _: op.gather_nd(x, rows(i), 0),
}
PUT: dict[str, Body] = {
    "scatter_update": lambda x, i, u: op.scatter_update(x, i, u, op.constant(FIRST)),
    "scatter_elements": lambda x, i, u: op.scatter_elements_update(x, i, u, op.constant(FIRST)),
    "scatter_spread": scatter_spread,
    "scatter_nd": lambda x, i, u: op.scatter_nd_update(x, rows(i), u),
}
BODIES = TAKE | PUT
SHAPES = {"open": ([-1], [-1], [-1]), "fixed": ([4], [2], [2])}
MODELS = [f"{body}-{shapes}" for body in BODIES for shapes in SHAPES]


def model(directory: Path, body: Body, shapes: Any) -> None:
    x, updates = parameter("x", shapes[0]), parameter("updates", shapes[2])
    indices = parameter("indices", shapes[1], DataType.INT32)
    nothing = op.constant(np.array([0], np.float32))
    # Every input is read, also where the body does not.
    used = op.multiply(op.reduce_sum(updates, op.constant(FIRST), True), nothing)
    y = op.add(body(x, indices, updates), used)
    save(directory / "1", [result("y", y)], [x, indices, updates])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("indices")
    for body, make in BODIES.items():
        for name, shapes in SHAPES.items():
            model(base / f"{body}-{name}", make, shapes)
    with Server(
        "ie_serving", *several(base / "c.json", {m: str(base / m) for m in MODELS})
    ) as served:
        yield served.ready()


def ask(server: Server, name: str, indices: list[int]) -> Any:
    body = {"inputs": {"x": DATA, "indices": indices, "updates": UPDATES}}
    return server.rest.post(f"/v1/models/{name}:predict", json=body)


def expected(name: str, indices: list[int]) -> list[float]:
    data = np.array(DATA)
    if name.partition("-")[0] in TAKE:
        return list(data[indices])
    data[indices] = UPDATES
    return list(data)


def right(server: Server, name: str, indices: list[int]) -> None:
    reply = ask(server, name, indices)
    assert reply.status_code == 200, reply.text
    assert reply.json()["outputs"] == expected(name, indices)


@pytest.mark.parametrize("name", MODELS)
def test_an_index_out_of_range_is_refused_and_harms_no_other_request(
    server: Server, name: str
) -> None:
    """Before, ScatterElementsUpdate with -10000000 ended the process by a segmentation fault."""
    right(server, name, [3, 1])
    for indices in BEYOND:
        reply = ask(server, name, indices)
        assert (reply.status_code, "is out of range" in reply.text) == (400, True), reply.text
        right(server, name, [0, 3])
    assert "worker ended" not in server.log


@pytest.mark.parametrize("name", [m for m in MODELS if not m.startswith("scatter_update")])
def test_negative_indices_count_from_the_end(server: Server, name: str) -> None:
    right(server, name, [-1, -4])


@pytest.mark.parametrize("shapes", SHAPES)
def test_scatter_update_takes_no_negative_index(server: Server, shapes: str) -> None:
    """OpenVINO's own limit: it fails for one."""
    assert ask(server, f"scatter_update-{shapes}", [-1, 0]).status_code == 400
