"""SavedModels are served under the names that their SignatureDefs give, every signature."""

import importlib.util
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.run.program import RunnableSignature
from ie_serving.engines.savedmodel import file as saved_model
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from tests.exporting import export
from tests.unit.engines.openvino.models import load, run


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SavedModels as tensorflow writes them; see `savedmodels.py`."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("tensorflow, the reference, is not installed")
    script = Path(__file__).with_name("savedmodels.py")
    return export(script, tmp_path_factory.mktemp("exported"))


def test_signatures_are_those_of_the_file(exported: Path) -> None:
    signatures = load(exported / "several").signatures
    own = {name for name, signature in signatures.items() if not signature.definition}
    assert own == {"serving_default", "three", "several"}
    several = signatures["several"]
    assert set(several.inputs) == {"p", "q"}
    assert set(several.outputs) == {"zz", "aa", "same"}
    q = several.inputs["q"]
    assert (q.dtype, q.shape, q.tensor) == (DataType.INT64, (-1, 3), "several_q:0")
    assert several.outputs["zz"].tensor.startswith("StatefulPartitionedCall")


def test_several_signatures_are_not_compiled_for_known_shapes(exported: Path) -> None:
    with pytest.raises(LoadFailed, match="expected one signature for OpenVINO: found 3"):
        OpenVinoEngine().compile_for(exported / "several", EngineOptions(), {})


def test_aliases_and_methods_are_those_of_the_file(exported: Path) -> None:
    signatures = load(exported / "first").signatures
    default, regress = signatures["serving_default"], signatures["regress"]
    assert {n: s.tensor for n, s in default.inputs.items()} == {"in": "x:0"}
    assert {n: s.tensor for n, s in default.outputs.items()} == {"out": "y:0"}
    assert {n: s.tensor for n, s in regress.inputs.items()} == {"inputs": "x:0"}
    assert regress.method == "tensorflow/serving/regress"


async def test_every_signature_computes_its_own(exported: Path) -> None:
    model = load(exported / "several", inference_precision="f32")
    x = {"x": np.array([1, 2, 5], np.float32)}
    assert (await run(model, x))["y"].tolist() == [2.5, 3.0, 4.5]
    assert (await run(model, x, "three"))["y3"].tolist() == [3.5, 4.0, 5.5]
    inputs = {"p": np.full((2, 3), 4, np.float32), "q": np.full((2, 3), 7, np.int64)}
    answer = await run(model, inputs, "several")
    assert answer["zz"].tolist() == [[2.0] * 3] * 2
    assert answer["aa"].tolist() == [[8] * 3] * 2
    assert answer["same"].tolist() == [[4.0] * 3] * 2


def test_a_load_looks_a_few_times_at_each_input(exported: Path) -> None:
    """It was once for each other one: 1,600 inputs took 11 s, 1,600 features of Examples 30 s."""
    calls = Counter[str]()

    def count(frame: FrameType, event: str, function: Any) -> None:
        calls[function.__name__ if event == "c_call" else frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        model = load(exported / "wide")
    finally:
        sys.setprofile(None)
    inputs = len(model.signatures[SERVING_DEFAULT].inputs)
    assert inputs >= 200
    # Both signatures have as many. `node_output` is called and returns.
    assert 2 * inputs <= calls["get_names"] <= 10 * inputs
    assert 2 * inputs <= calls["node_output"] <= 300 * inputs


async def test_outputs_that_depend_on_no_input_have_all_their_bits(exported: Path) -> None:
    """The CPU plugin would compute them in 32 bits; nothing could flag them, as no request does."""
    answer = await run(load(exported / "fixed"), {"x": np.array([1], np.float32)})
    assert answer["y"].tolist() == [2.0]
    assert answer["sum"] == (2**40 + 2**31 + 1) * 3
    assert answer["real"] == 3.5
    assert answer["is_large"].tolist() == [True, False]


async def test_inputs_that_are_given_out_under_the_name_of_another_keep_their_own(
    exported: Path,
) -> None:
    inputs = {name: np.array([at], np.float32) for at, name in enumerate("pqr", start=1)}
    answer = await run(load(exported / "fixed"), inputs, "crossed")
    assert {name: value.tolist() for name, value in answer.items()} == {
        "p": [2.0],
        "q": [1.0],
        "r": [2.0],
    }


async def test_an_input_inside_the_graph_is_fed_and_nothing_above_it_runs(exported: Path) -> None:
    model = load(exported / "fed_inside", inference_precision="f32")
    assert str(model.signatures["serving_default"].inputs["x"]) == '"x" float (-1, 1)'
    answer = await run(model, {"x": np.array([[3], [4]], np.float32)})
    assert answer["y"].tolist() == [[1.5], [2.0]]


@pytest.mark.parametrize(
    ("model", "moves", "operation"),
    [
        ("counting", "in_a_loop", "AssignAddVariableOp"),
        ("first_counting", "moves", "AssignAdd"),
    ],
)
def test_a_signature_that_changes_a_variable_or_reads_a_changed_one_is_left_out(
    exported: Path, model: str, moves: str, operation: str
) -> None:
    signatures = load(exported / model).signatures
    assert not signatures["serving_default"].left_out
    assert f"{operation} changes 'count' for later requests" in signatures[moves].left_out
    told = f"depends on 'count', which signature '{moves}' changes ({operation})"
    assert told in signatures["reads"].left_out


def test_an_active_random_layer_of_keras_is_told_with_the_way_out(exported: Path) -> None:
    with pytest.raises(LoadFailed, match=r"a random layer of Keras .* model\(x, training=False\)"):
        load(exported / "flipping")


def test_a_ragged_output_is_told_with_the_way_out(exported: Path) -> None:
    text = r'"words" is ragged or sparse, .* its parts, or what its to_tensor\(\) gives'
    with pytest.raises(LoadFailed, match=text):
        load(exported / "ragged")


class TakesOne:
    """A fallback that takes the signature `in_a_loop` and says more of the others."""

    def take(
        self, directory: Path, left_out: Sequence[Signature], options: EngineOptions
    ) -> tuple[list[RunnableSignature], list[Signature]]:
        taken = [each for each in left_out if each.name == "in_a_loop"]
        others = [replace(s, left_out=f"{s.left_out}; try it") for s in left_out if s not in taken]
        runs_on = "another engine"
        return [Answering(replace(each, left_out="", runs_on=runs_on)) for each in taken], others


class Answering:
    """A program that reads outputs of its own."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature

    async def infer(self, inputs: Mapping[str, Array], read: Callable[..., Any]) -> Any:
        return read({"y": inputs["x"] + 7})

    def close(self) -> None:
        """Nothing is held."""


async def test_a_fallback_takes_what_is_left_out(exported: Path) -> None:
    engine = OpenVinoEngine(TakesOne())
    model = engine.compile(exported / "counting", EngineOptions())
    signatures = model.signatures
    assert signatures["in_a_loop"].runs_on == "another engine"
    assert signatures["serving_default"].runs_on == "OpenVINO"
    assert not signatures["in_a_loop"].left_out
    assert signatures["reads"].left_out.endswith("; try it")
    assert (await run(model, {"x": np.array([1], np.float32)}, "in_a_loop"))["y"].tolist() == [8.0]
    model.close()


def test_tensorflow_takes_nothing_where_it_would_skip_the_preprocessing(exported: Path) -> None:
    options = EngineOptions().having(Preprocessing(mean=(1.0,)))
    options = options.having(TensorFlowOptions(fallback=True))
    engine = OpenVinoEngine(TensorFlowFallback())
    signatures = engine.compile(exported / "counting", options).signatures
    assert "; TensorFlow could run it, but not with mean: " in signatures["in_a_loop"].left_out
    assert not signatures["serving_default"].left_out


def test_tensorflow_is_not_named_for_a_frozen_graph_which_its_process_does_not_load(
    tmp_path: Path,
) -> None:
    with tf.Graph().as_default() as made:
        tf.identity(tf.linalg.svd(v1.placeholder(tf.float32, [2, 2]), compute_uv=False))
    (tmp_path / "model.pb").write_bytes(made.as_graph_def().SerializeToString())
    with pytest.raises(LoadFailed, match="OpenVINO has no Svd") as refused:
        OpenVinoEngine(TensorFlowFallback()).compile(tmp_path, EngineOptions())
    assert "TensorFlow" not in str(refused.value)


async def test_results_of_a_frozen_graph_have_their_dtypes_and_weights_left_over_are_none(
    tmp_path: Path,
) -> None:
    """A node's `T` is that of its input, and exporters leave readers of unused weights."""
    with tf.Graph().as_default() as made:
        x = v1.placeholder(tf.float32, [None], "x")
        tf.strings.as_string(x, 1, name="text")
        tf.where(x > 1.0, name="where")
        tf.raw_ops.Bucketize(input=x, boundaries=[1.0], name="bucket")
        tf.identity(tf.constant([5.0]), name="weights")
    (tmp_path / "model.pb").write_bytes(made.as_graph_def().SerializeToString())
    found = await run(load(tmp_path), {"x": np.float32([0.5, 2])})
    assert {name: (each.dtype, each.tolist()) for name, each in found.items()} == {
        "text": (np.object_, [b"0.5", b"2.0"]),
        "where": (np.int64, [[1]]),
        "bucket": (np.int32, [0, 1]),
    }


async def test_a_loop_without_a_round_gives_no_elements_of_another_size(tmp_path: Path) -> None:
    """OpenVINO would give rows of 1 for a map over no rows of 2."""
    module = tf.Module()
    names = {
        "sums": lambda x: {"y": tf.map_fn(tf.reduce_sum, x)},
        "rows": lambda x: {"y": tf.map_fn(lambda row: row * 2, x)},
    }
    rows = [tf.TensorSpec([None, 2], name="x")]
    module.of = {name: tf.function(compute, rows) for name, compute in names.items()}
    tf.saved_model.save(module, str(tmp_path), signatures=dict(module.of))
    model, sent = load(tmp_path), {"x": np.zeros((0, 2), np.float32)}
    assert (await run(model, sent, "sums"))["y"].shape == (0,)
    with pytest.raises(InvalidTensor, match="cannot take inputs of shape"):
        await run(model, sent, "rows")


async def test_a_signature_without_outputs_answers_nothing(tmp_path: Path) -> None:
    """As `get_initial_state` of a policy of TF-Agents without a state."""
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x * 2.0}, [tf.TensorSpec([None], name="x")])
    module.g = tf.function(lambda batch_size: {}, [tf.TensorSpec([], tf.int32, "batch_size")])
    names = {"action": module.f, "get_initial_state": module.g}
    tf.saved_model.save(module, str(tmp_path), signatures=names)
    model = load(tmp_path)
    assert await run(model, {"batch_size": np.array(2, np.int32)}, "get_initial_state") == {}
    assert (await run(model, {"x": np.array([2], np.float32)}, "action"))["y"].tolist() == [4.0]


def test_a_model_without_signatures_is_refused_with_what_to_do(tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with pytest.raises(LoadFailed, match="declares no signature: save the model with signatures"):
        load(tmp_path)


async def test_truncating_the_variables_of_a_loaded_model_changes_nothing(
    exported: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(exported / "several", tmp_path / "model")
    model = load(copy)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    for file in copy.rglob("*"):
        if file.is_file():
            os.truncate(file, 0)
    assert (await run(model, {"x": np.array([2], np.float32)}))["y"].tolist() == [3.0]


def test_an_operation_that_openvino_lacks_is_named(exported: Path) -> None:
    with pytest.raises(LoadFailed, match="DecodeCSV") as failure:
        load(exported / "unsupported")
    assert "serving_default" in str(failure.value)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda copy: os.truncate(copy / "saved_model.pb", 1000), r"saved_model\.pb"),
        (
            lambda copy: flip(copy / "variables" / "variables.index", 40),
            r"^variables\.index is damaged, a block does not have its",
        ),
        (
            lambda copy: shutil.rmtree(copy / "variables"),
            r"^variables/ is missing beside saved_model\.pb, and the",
        ),
    ],
    ids=["graph cut", "index flipped", "no variables"],
)
def test_a_damaged_file_is_named(
    exported: Path, tmp_path: Path, damage: Callable[[Path], None], told: str
) -> None:
    copy = shutil.copytree(exported / "several", tmp_path / "model")
    damage(copy)
    with pytest.raises(LoadFailed, match=told):
        load(copy)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("variables.data-00000-of-00001", "is cut short, it has 1000 bytes and the variables take"),
        ("variables.index", "is damaged, it is no table, or is cut short"),
    ],
)
def test_a_damaged_file_is_named_before_any_other_engine_is_asked(
    file: str, told: str, exported: Path, tmp_path: Path
) -> None:
    """It costs all signatures, as with TensorFlow, whose process could not load it either."""
    copy = shutil.copytree(exported / "several", tmp_path / "model")
    path = copy / "variables" / file
    os.truncate(path, 1000 if "data" in file else path.stat().st_size - 9)
    with pytest.raises(LoadFailed) as failure:
        OpenVinoEngine(TakesOne()).compile(copy, EngineOptions())
    assert str(failure.value).startswith(f"{file} {told}")
    assert str(failure.value).endswith(": upload the version again")


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


def test_a_flipped_byte_of_a_variable_is_refused_as_by_tensorflow(
    exported: Path, tmp_path: Path
) -> None:
    """Its length is right, and every bit of it is a number that the model would compute with."""
    copy = shutil.copytree(exported / "several", tmp_path / "model")
    (shard,) = (copy / "variables").glob("variables.data-*")
    flip(shard, 600_000)
    with pytest.raises(LoadFailed) as failure:
        load(copy)
    assert str(failure.value) == (
        f"{shard.name} is damaged, the variable 'table/.ATTRIBUTES/VARIABLE_VALUE' does not have"
        " the checksum that variables.index promises: uploaded incompletely or damaged: upload the"
        " version again"
    )


@pytest.mark.parametrize(("tags", "answer"), [("serve", 4.0), ("serve,gpu", 5.0), ("gpu", 5.0)])
async def test_the_graph_with_the_tags_is_served(exported: Path, tags: str, answer: float) -> None:
    chosen = tuple(tags.split(","))
    model = load(exported / "two_graphs", inference_precision="f32", saved_model_tags=chosen)
    assert (await run(model, {"x": np.array([4], np.float32)}))["y"].tolist() == [answer]


def test_tags_that_no_graph_has_are_refused_with_those_that_are_there(exported: Path) -> None:
    with pytest.raises(LoadFailed, match="no graph tagged 'serve,tpu', it has 'serve; serve,gpu'"):
        load(exported / "two_graphs", saved_model_tags=("serve", "tpu"))


def test_lost_variables_fail_to_load(exported: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(exported / "several", tmp_path / "model")
    (shard,) = (copy / "variables").glob("variables.data-*")
    os.truncate(shard, 10)
    with pytest.raises(LoadFailed, match=r"cut short, it has 10 bytes .*upload the version again"):
        load(copy)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, file: bytes
) -> None:
    directory = tmp_path_factory.mktemp("any")
    (directory / "saved_model.pb").write_bytes(file)
    with pytest.raises(LoadFailed):
        saved_model.declared(saved_model.read_graph(directory))
