"""Loops and branches of TensorFlow 1 inside of functions, as TensorFlow 2 saves them again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.savedmodel.file import read_graph
from ie_serving.engines.savedmodel.frames import CALLS
from ie_serving.engines.savedmodel.host.inlined_functions import inline
from ie_serving.engines.savedmodel.host.needs import FIRST_FORM
from ie_serving.engines.savedmodel.host.nodes import GraphNodes
from ie_serving.engines.savedmodel.output_numbers import Numbers
from tests.unit.engines.savedmodel.exports import (
    example,
    first_control_flow,
    first_generation,
    signature,
    strings,
)

WORDS = strings(b"a", b"Bc", b"")
EXAMPLES = strings(example(age=[1.0], job=[b"x"]), example(age=[2.0], tags=[b"y", b"z"]))
X = np.array([[1, -2], [3, 4], [0, 5]], np.float32)
ASKED: Mapping[str, Mapping[str, Any]] = {
    "map": {"words": WORDS},
    "branch": {"words": WORDS, "flag": np.bool_(False)},
    "branch_of_constants": {"flag": np.bool_(True), "words": WORDS},
    "nested": {"words": WORDS},
    "rows": {"examples": EXAMPLES},
    "label": {"x": X},
    "passed_on": {"words": WORDS},
    "numbers": {"x": X},
}


def _signatures() -> Mapping[str, Any]:
    words = v1.placeholder(tf.string, [None], name="words")
    examples = v1.placeholder(tf.string, [None], name="examples")
    flag = v1.placeholder(tf.bool, [], name="flag")
    x = v1.placeholder(tf.float32, [None, 2], name="x")
    ids = tf.lookup.KeyValueTensorInitializer(["a", "Bc"], tf.constant([1, 2], tf.int64))
    table = tf.lookup.StaticHashTable(ids, 0)
    rows = v1.get_variable("rows", initializer=tf.reshape(tf.range(6.0), [3, 2]))
    found = tf.map_fn(table.lookup, words, tf.int64)
    upper = tf.map_fn(tf.strings.upper, words)
    pairs = tf.map_fn(
        lambda row: tf.map_fn(lambda other: tf.strings.join([row, other]), words), words
    )
    age, job, tags = tf.map_fn(_parsed, examples, (tf.float32, tf.string, tf.int32))
    named = v1.cond(tf.reduce_sum(x @ x[:2]) > 0, lambda: "more", lambda: "less")
    of = {
        "map": ({"words": words}, {"upper": upper, "ids": found, "y": tf.gather(rows, found) * 2}),
        "branch": ({"words": words, "flag": flag}, {"y": _branch(flag, words)}),
        "branch_of_constants": (
            {"words": words, "flag": flag},
            {"y": v1.cond(flag, lambda: "yes", lambda: "no"), "size": tf.strings.length(words)},
        ),
        "nested": ({"words": words}, {"y": pairs}),
        "rows": ({"examples": examples}, {"age": age @ rows[:1], "job": job, "tags": tags}),
        "label": ({"x": x}, {"y": named, "z": tf.nn.relu(x)}),
        "numbers": ({"x": x}, {"y": tf.map_fn(lambda row: row * 2.0, x)}),
        "passed_on": ({"words": words}, {"same": words, "upper": upper}),
    }
    return {name: signature(*both) for name, both in of.items()}


def _branch(flag: Any, words: Any) -> Any:
    return v1.cond(flag, lambda: tf.strings.lower(words), lambda: tf.strings.join([words, "!"]))


def _parsed(row: Any) -> Any:
    features = {
        "age": tf.io.FixedLenFeature([1], tf.float32),
        "job": tf.io.FixedLenFeature([], tf.string, "none"),
        "tags": tf.io.VarLenFeature(tf.string),
    }
    parsed = tf.io.parse_single_example(row, features)
    return parsed["age"], tf.strings.upper(parsed["job"]), tf.size(parsed["tags"].values)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save with TensorFlow 1, load and save with TensorFlow 2."""
    root = tmp_path_factory.mktemp("again")
    with first_control_flow():
        first_generation(root / "first", _signatures)
    loaded = tf.saved_model.load(str(root / "first"))
    tf.saved_model.save(loaded, str(root / "1"), signatures=dict(loaded.signatures))
    return root / "1"


@pytest.fixture(scope="module")
def served(path: Path) -> CompiledModel:
    options = EngineOptions().having(OpenVinoOptions(inference_precision="f32"))
    return OpenVinoEngine().compile(path, options)


@pytest.fixture(scope="module")
def reference(path: Path) -> Any:
    return tf.saved_model.load(str(path))


@pytest.mark.parametrize("name", ASKED)
async def test_the_answer_is_that_of_tensorflow(
    name: str, reference: Any, served: CompiledModel
) -> None:
    given = {alias: tf.constant(value) for alias, value in ASKED[name].items()}
    found = reference.signatures[name](**given)
    want = {alias: value.numpy() for alias, value in found.items()}
    found = served.signatures[name]
    assert not found.left_out
    got = await served.infer(
        found,
        ASKED[name],
        lambda outputs: {alias: np.array(value) for alias, value in outputs.items()},
    )
    assert got.keys() == want.keys()
    for alias, right in want.items():
        assert got[alias].shape == np.shape(right), alias
        assert got[alias].tolist() == np.asarray(right).tolist(), alias


def test_only_calls_that_lead_to_a_loop_are_written_out(path: Path) -> None:
    meta_graph = read_graph(path)
    outputs = meta_graph.signature_def["map"].outputs
    calls = {outputs["upper"].name.partition(":")[0]}
    before = {node.name for node in meta_graph.graph_def.node}
    wanted = inline(meta_graph.graph_def, [outputs["upper"].name], Numbers(meta_graph))
    assert before - {node.name for node in meta_graph.graph_def.node} == calls
    ops = [node.op for node in GraphNodes(meta_graph.graph_def).above(wanted)]
    assert any(op.startswith(FIRST_FORM) for op in ops)
    assert not [op for op in ops if op in CALLS]
