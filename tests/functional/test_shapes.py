"""Shapes, batch sizes, resizing and devices, over both interfaces, against OpenVINO itself.

One server has a model for each row of the table in docs/guide/model-settings.md. What a row takes
is answered with the numbers of OpenVINO called directly; what it does not take is refused at once,
and the next request is answered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from tests.functional.asking import predict_request, predicted
from tests.functional.servers import SAMPLE, Server, config_flag, rpc_refused
from tests.process import PATIENCE_S, Process
from tests.unit.engines.openvino.models import parameter, result, save

Shape = tuple[int, ...]
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
RANDOM = np.random.default_rng(14)
WEIGHTS = RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32)
HEAD = RANDOM.standard_normal((8 * 16 * 16, 5)).astype(np.float32)
BATCH_WRONG = "Input batch size is incorrect"
SHAPE_WRONG = "The input data is incorrect"


def features(x: Any) -> Any:
    """Give a convolution of an image."""
    pads = [1, 1]
    return op.relu(op.convolution(x, op.constant(WEIGHTS), [1, 1], pads, pads, [1, 1]))


def convolution(directory: Path) -> Path:
    """Write a network without a fixed size, as a segmentation has."""
    x = parameter("x", [1, 3, 32, 32])
    return save(directory, [result("y", features(x))], [x])


def classifier(directory: Path) -> Path:
    """Write a network whose last layer fits to images of 16 by 16 alone."""
    x = parameter("x", [1, 3, 16, 16])
    flat = op.reshape(features(x), op.constant(np.array([0, HEAD.shape[0]])), True)
    return save(directory, [result("y", op.matmul(flat, op.constant(HEAD), False, False))], [x])


def two_inputs(directory: Path) -> Path:
    """Write y = a * b and z = a + 1, both by row."""
    a, b = parameter("a", [1, 4]), parameter("b", [1, 4])
    one = op.constant(np.float32(1))
    return save(directory, [result("y", op.multiply(a, b)), result("z", op.add(a, one))], [a, b])


NETWORKS = {"conv": convolution, "fixed": classifier, "two": two_inputs}


@dataclass(frozen=True)
class Row:
    """One model of the server.

    Attributes:
        network: a key of `NETWORKS`, or `digits`.
        keys: of its entry in the file.
        takes: shapes of the inputs, in order of their names, that are answered.
        refuses: those that are not, each with a part of the error.
    """

    network: str
    keys: Mapping[str, object]
    takes: tuple[tuple[Shape, ...], ...]
    refuses: Mapping[tuple[Shape, ...], str]


IMAGE = (1, 3, 32, 32)
ONE = (((1, 4), (1, 4)),)
ROWS: Mapping[str, Row] = {
    "batch_as_it_is": Row("conv", {}, ((IMAGE,),), {((2, 3, 32, 32),): BATCH_WRONG}),
    "batch_of_4": Row(
        "conv", {"batch_size": 4}, (((4, 3, 32, 32),),), {((3, 3, 32, 32),): BATCH_WRONG}
    ),
    "batch_as_text": Row(
        "conv", {"batch_size": "4"}, (((4, 3, 32, 32),),), {(IMAGE,): BATCH_WRONG}
    ),
    "batch_0": Row("conv", {"batch_size": 0}, ((IMAGE,),), {((2, 3, 32, 32),): BATCH_WRONG}),
    "any_batch": Row(
        "conv",
        {"batch_size": "auto"},
        ((IMAGE,), ((5, 3, 32, 32),), (IMAGE,), ((5, 3, 32, 32),), ((2, 3, 32, 32),)),
        {((1, 3, 32, 31),): SHAPE_WRONG},
    ),
    "batches_from_2_to_4": Row(
        "conv",
        {"batch_size": "2:4"},
        (((2, 3, 32, 32),), ((4, 3, 32, 32),)),
        {((5, 3, 32, 32),): "2..4", (IMAGE,): "2..4"},
    ),
    "any_batch_of_digits": Row("digits", {"batch_size": "auto"}, (((7, 64),), ((1, 64),)), {}),
    "batch_of_two_inputs": Row(
        "two",
        {"batch_size": "auto"},
        (((3, 4), (3, 4)), ((1, 4), (1, 4))),
        {((3, 4), (2, 4)): "do not fit together"},
    ),
    "shape_fixed": Row(
        "conv", {"shape": "(2,3,20,24)"}, (((2, 3, 20, 24),),), {(IMAGE,): SHAPE_WRONG}
    ),
    "shape_as_list": Row("conv", {"shape": [1, 3, 8, 8]}, (((1, 3, 8, 8),),), {}),
    "shape_wins": Row("conv", {"shape": "(1,3,8,8)", "batch_size": 4}, (((1, 3, 8, 8),),), {}),
    "shape_ranges": Row(
        "conv",
        {"shape": "(1,3,16:48,-1)"},
        (((1, 3, 16, 9),), ((1, 3, 48, 64),), ((1, 3, 16, 9),)),
        {((1, 3, 49, 64),): "16..48", ((2, 3, 32, 32),): SHAPE_WRONG},
    ),
    "shape_by_input": Row(
        "two",
        {"shape": {"a": "(2,3)", "b": [2, 3]}},
        (((2, 3), (2, 3)),),
        {((1, 4), (1, 4)): SHAPE_WRONG},
    ),
    "shape_auto_of_one_input": Row(
        "two",
        {"shape": {"a": "auto", "b": "(1,4)"}},
        (((1, 4), (1, 4)), ((3, 4), (1, 4))),
        {((3, 5), (1, 4)): "do not fit together"},
    ),
    "any_shape": Row(
        "conv",
        {"shape": "auto"},
        ((IMAGE,), ((2, 3, 40, 17),), (IMAGE,), ((2, 3, 40, 17),), ((1, 3, 3, 3),)),
        {
            ((1, 4, 32, 32),): "cannot take",
            ((3, 32, 32),): SHAPE_WRONG,
            ((1, 3, 32, 32, 1),): SHAPE_WRONG,
        },
    ),
    "any_shape_of_a_fixed_head": Row(
        "fixed",
        {"shape": "auto"},
        (((1, 3, 16, 16),), ((4, 3, 16, 16),)),
        {((1, 3, 16, 17),): "cannot take", ((1, 3, 32, 32),): "cannot take"},
    ),
    "streams": Row("conv", {"plugin_config": {"NUM_STREAMS": 2}, "nireq": 3}, ((IMAGE,),), {}),
    "throughput": Row(
        "conv", {"plugin_config": {"PERFORMANCE_HINT": "THROUGHPUT"}}, ((IMAGE,),), {}
    ),
    "names_of_2020": Row(
        "conv", {"plugin_config": {"CPU_THROUGHPUT_STREAMS": "1"}}, ((IMAGE,),), {}
    ),
    "auto": Row("two", {"target_device": "AUTO"}, ONE, {}),
    "auto_of_a_list": Row("two", {"target_device": "AUTO:GPU,CPU"}, ONE, {}),
    "hetero": Row("two", {"target_device": "HETERO:CPU"}, ONE, {}),
    "multi": Row("two", {"target_device": "MULTI:CPU", "batch_size": "auto"}, ONE, {}),
    "batch_device": Row("two", {"target_device": "BATCH:CPU(4)"}, ONE, {}),
    "streams_of_auto": Row(
        "two", {"target_device": "AUTO:CPU", "plugin_config": {"NUM_STREAMS": "2"}}, ONE, {}
    ),
}
TAKEN = [(name, shapes) for name, row in ROWS.items() for shapes in row.takes]
REFUSED = [(n, shapes, text) for n, row in ROWS.items() for shapes, text in row.refuses.items()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shapes")
    for name, make in NETWORKS.items():
        make(root / name / "1")
    return root


def path(root: Path, network: str) -> Path:
    return SAMPLE if network == "digits" else root / network


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    entries = [
        {"name": name, "base_path": str(path(root, row.network)), **row.keys}
        for name, row in ROWS.items()
    ]
    file = config_flag(root / "config.json", *entries)
    with Server("ie_serving", "config", file, "--inference_precision=f32") as server:
        yield server.ready()


def model_of(root: Path, network: str) -> ov.Model:
    versions = sorted(path(root, network).iterdir(), key=lambda folder: int(folder.name))
    (file,) = versions[-1].glob("*.xml")
    return ov.Core().read_model(file)


def numbers(root: Path, network: str, shapes: tuple[Shape, ...]) -> dict[str, np.ndarray]:
    inputs = sorted(model_of(root, network).inputs, key=lambda each: each.get_any_name())
    drawn = np.random.default_rng(sum(map(sum, shapes)))
    return {
        each.get_any_name(): drawn.standard_normal(shape).astype(np.float32)
        for each, shape in zip(inputs, shapes, strict=True)
    }


def direct(root: Path, network: str, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Ask OpenVINO itself, with a model that has exactly these shapes."""
    model = model_of(root, network)
    model.reshape({name: list(array.shape) for name, array in given.items()})
    answer = ov.Core().compile_model(model, "CPU", EXACT)(dict(given))
    return {name: value for port, value in answer.items() for name in port.get_names()}


def over_grpc(server: Server, name: str, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return predicted(server, predict_request(name, **given))


def over_rest(server: Server, name: str, given: Mapping[str, np.ndarray]) -> Any:
    inputs = {key: array.tolist() for key, array in given.items()}
    return server.rest.post(f"/v1/models/{name}:predict", json={"inputs": inputs})


@pytest.mark.parametrize(("name", "shapes"), TAKEN, ids=str)
def test_numbers_are_those_of_openvino(
    server: Server, root: Path, name: str, shapes: tuple[Shape, ...]
) -> None:
    network = ROWS[name].network
    given = numbers(root, network, shapes)
    expected = direct(root, network, given)
    answered = over_grpc(server, name, given)
    for key, array in answered.items():
        np.testing.assert_allclose(array, expected[key], rtol=1e-4, atol=1e-4)
    outputs = over_rest(server, name, given).json()["outputs"]
    named = outputs if isinstance(outputs, dict) else dict.fromkeys(answered, outputs)
    assert named.keys() == answered.keys()
    for key, values in named.items():
        np.testing.assert_allclose(values, expected[key], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "shapes", "text"), REFUSED, ids=str)
def test_a_shape_that_the_model_does_not_take_is_refused_at_once(
    server: Server, root: Path, name: str, shapes: tuple[Shape, ...], text: str
) -> None:
    row = ROWS[name]
    given = numbers(root, row.network, shapes)
    with rpc_refused("INVALID_ARGUMENT", text):
        over_grpc(server, name, given)
    reply = over_rest(server, name, given)
    assert (reply.status_code, text in reply.json()["error"]) == (400, True), reply.text
    good = numbers(root, row.network, row.takes[0])
    assert over_rest(server, name, good).status_code == 200


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--target_device=GPU"], "this machine has no 'GPU', it has CPU"),
        (["--target_device=HETERO:NPU,CPU"], "this machine has no 'NPU'"),
        (["--target_device=MULTI"], "needs a list of devices"),
        (['--plugin_config={"NUM_STREAM": 2}'], 'did you mean "NUM_STREAMS"'),
        (["--target_device=AUTO", '--plugin_config={"NUM_STREAM": 2}'], "did you mean"),
        (["--shape=(1,4,32,32)"], "cannot be reshaped"),
        (['--shape={"other": "(1,3,32,32)"}'], "shape names no input 'other'"),
    ],
    ids=str,
)
def test_a_device_or_input_that_is_lacking_is_told(root: Path, flags: list[str], text: str) -> None:
    command = Process("ie_serving", "check", f"--model_path={root / 'conv'}", *flags)
    assert command.exit_code(PATIENCE_S) == 1
    assert text in command.log
