"""Answers hold nothing of other requests, over both interfaces, where OpenVINO alone leaves it.

Each model is first asked with many numbers of a mark, which OpenVINO would give the next client.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from tests.functional.asking import over_grpc
from tests.functional.exports.answers import assert_equal, over_rest
from tests.functional.servers import Server, config_flag

MARK = -777.0
SIGNATURE = "serving_default"
Arrays = Mapping[str, Any]


def _input(name: str, kind: Any, *shape: int) -> ov.Node:
    node = op.parameter([*shape], kind)
    node.output(0).set_names({name})
    return node


def _tile() -> ov.Model:
    x, repeats = _input("x", np.float32, 2, 2, 2, -1), _input("r", np.int64, 4)
    return _model(op.tile(x, repeats).output(0), x, repeats)


def _pad() -> ov.Model:
    x, value = _input("x", np.float32, -1, -1), _input("v", np.float32)
    ends = op.constant(np.array([1, 2]))
    return _model(op.pad(x, ends, ends, "constant", value).output(0), x, value)


def _unique() -> ov.Model:
    x = _input("x", np.int32, 2, -1)
    return _model(op.unique(x, op.constant(np.int64(1))).output(3), x)


def _sums() -> ov.Model:
    x, axis = _input("x", np.float32, -1, 3), _input("axis", np.int64)
    return _model(op.cum_sum(x, axis).output(0), x, axis)


def _model(y: ov.Output, *inputs: ov.Node) -> ov.Model:
    y.set_names({"y"})
    return ov.Model([op.result(y)], [*inputs])


MODELS = {"tile": _tile, "pad": _pad, "unique": _unique, "sums": _sums}
EIGHT = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2, 1)
FLAGS = np.array([[1, 1, 1, 0, 1], [0, 1, 1, 1, 1]], np.int32)
CASES: dict[str, tuple[Arrays, Arrays, Any]] = {
    "tile": (
        {"x": np.full((2, 2, 2, 8), MARK, np.float32), "r": np.array([16, 16, 8, 1])},
        {"x": EIGHT, "r": np.array([2, 2, 2, 2])},
        np.tile(EIGHT, (2, 2, 2, 2)),
    ),
    "pad": (
        {"x": np.full((40, 40), MARK, np.float32), "v": np.float32(MARK)},
        {"x": EIGHT.reshape(2, 4), "v": np.float32(5)},
        np.pad(EIGHT.reshape(2, 4), ((1, 1), (2, 2)), constant_values=5),
    ),
    "unique": (
        {"x": np.full((2, 400), MARK, np.int32)},
        {"x": FLAGS},
        np.unique(FLAGS, axis=1, return_counts=True)[1],
    ),
}
"""What another client asks first; a request, and what is right."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("others")
    for name, build in MODELS.items():
        (root / name / "1").mkdir(parents=True)
        ov.save_model(build(), root / name / "1" / "model.xml", compress_to_fp16=False)
    file = config_flag(root / "c.json", *({"name": n, "base_path": str(root / n)} for n in MODELS))
    with Server("ie_serving", "config", file) as server:
        yield server.ready()


@pytest.mark.parametrize("name", CASES)
def test_an_answer_holds_nothing_of_another_request(server: Server, name: str) -> None:
    others, inputs, y = CASES[name]
    for _ in range(3):
        over_grpc(server, name, SIGNATURE, others)
        assert_equal(over_grpc(server, name, SIGNATURE, inputs), {"y": y})
        over_grpc(server, name, SIGNATURE, others)
        assert_equal(over_rest(server, name, SIGNATURE, inputs, {"y": y}), {"y": y})


@pytest.mark.parametrize("axis", [2, -3, 2**31 - 1])
def test_an_axis_out_of_range_is_the_callers_fault(server: Server, axis: int) -> None:
    inputs = {"x": np.ones((2, 3), np.float32), "axis": np.int64(axis)}
    with pytest.raises(grpc.RpcError) as caught:
        over_grpc(server, "sums", SIGNATURE, inputs)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    body = {"inputs": {"x": [[1, 1, 1]], "axis": axis}}
    reply = server.rest.post("/v1/models/sums:predict", data=json.dumps(body))
    assert reply.status_code == 400
    assert "axis" in reply.json()["error"].lower()
    assert "axis" in caught.value.details().lower()
