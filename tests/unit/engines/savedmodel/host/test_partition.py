"""Which node of a graph that TensorFlow made runs where."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.frames import Frame, Library, above
from ie_serving.engines.savedmodel.host.needs import may_need_host
from ie_serving.engines.savedmodel.host.partition import Partition, Placement, partition
from ie_serving.wire.protobuf import graph

Build = Callable[[Any, Any], Any]
"""Makes an output of a text `s` and numbers `x`."""


def divided(build: Build) -> Partition:
    frame, output = frame_of(build)
    return partition([frame.node_output(output)])


def frame_of(build: Build) -> tuple[Frame, str]:
    @tf.function
    def called(s: Any, x: Any) -> Any:
        return build(s, x)

    with v1.Graph().as_default() as made:
        s, x = v1.placeholder(tf.string, [None], "s"), v1.placeholder(tf.float32, [None, 2], "x")
        output = called(s, x)
        definition = graph.GraphDef.FromString(made.as_graph_def().SerializeToString())
    return Frame(Library(definition), definition), output.name


def table() -> Any:
    made = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64))
    return tf.lookup.StaticHashTable(made, -1)


KERNEL = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("build", "before", "model", "after"),
    [
        pytest.param(lambda s, x: tf.matmul(x, KERNEL), [], ["MatMul"], [], id="arithmetic alone"),
        pytest.param(
            lambda s, x: tf.strings.join([s, "!"]), ["StringJoin"], [], [], id="strings alone"
        ),
        pytest.param(
            lambda s, x: tf.matmul(tf.gather(KERNEL, table().lookup(s)), KERNEL),
            ["LookupTableFindV2"],
            ["GatherV2", "MatMul"],
            [],
            id="a look-up before an embedding",
        ),
        pytest.param(
            lambda s, x: tf.strings.as_string(tf.matmul(x, KERNEL)),
            [],
            ["MatMul"],
            ["AsString"],
            id="a text behind",
        ),
        pytest.param(
            lambda s, x: tf.strings.join([tf.strings.lower(s), tf.as_string(tf.matmul(x, x)[0])]),
            ["StringLower"],
            ["MatMul", "StridedSlice"],
            ["AsString", "StringJoin"],
            id="both sides: what strings need early is not computed late",
        ),
        pytest.param(
            lambda s, x: tf.strings.to_number(tf.strings.as_string(x)) + 1.0,
            ["AddV2", "AsString", "StringToNumber"],
            [],
            [],
            id="a sum behind strings needs no model of its own",
        ),
        pytest.param(
            lambda s, x: tf.matmul(tf.strings.to_number(tf.as_string(x * 2.0)), KERNEL),
            ["AsString", "Mul", "StringToNumber"],
            ["MatMul"],
            [],
            id="arithmetic that only leads to strings goes with them",
        ),
        pytest.param(
            lambda s, x: tf.matmul(x, tf.strings.to_number(tf.constant([["1"], ["2"]]))),
            [],
            ["MatMul"],
            [],
            id="strings of constants are computed at load",
        ),
    ],
)
def test_a_node_runs_before_in_or_after_the_model(
    build: Build, before: list[str], model: list[str], after: list[str]
) -> None:
    found = divided(build)
    assert found.names(Placement.BEFORE) == before
    assert found.names(Placement.MODEL) == model
    assert found.names(Placement.AFTER) == after


@pytest.mark.parametrize(
    ("build", "cause"),
    [
        (lambda s, x: tf.strings.format("{}", s), "StringFormat .* computes with strings"),
        (
            lambda s, x: tf.matmul(tf.strings.to_number(tf.as_string(tf.matmul(x, x))), KERNEL),
            "MatMul .* export one that ends with StringToNumber .* one after the other",
        ),
    ],
)
def test_a_node_that_runs_nowhere_is_refused_by_name(build: Build, cause: str) -> None:
    with pytest.raises(LoadFailed, match=cause):
        divided(build)


@pytest.mark.parametrize(
    ("build", "needed"),
    [
        pytest.param(lambda s, x: tf.matmul(x, KERNEL), False, id="a product"),
        pytest.param(
            lambda s, x: tf.while_loop(lambda y: tf.size(y) < 0, lambda y: y * 2.0, [x])[0],
            False,
            id="a loop of numbers",
        ),
        pytest.param(lambda s, x: tf.strings.length(s), True, id="lengths of texts"),
        pytest.param(lambda s, x: tf.size(s), True, id="a number of texts"),
        pytest.param(lambda s, x: table().size() + tf.size(x, tf.int64), True, id="a table"),
        pytest.param(
            lambda s, x: tf.map_fn(lambda row: tf.strings.to_number(tf.as_string(row)), x),
            True,
            id="texts in a loop",
        ),
    ],
)
def test_the_host_is_needed_for_texts_and_tables(build: Build, needed: bool) -> None:
    frame, output = frame_of(build)
    assert may_need_host([], above([frame.node_output(output)])) is needed


def test_a_model_without_strings_imports_nothing_of_the_host(tmp_path: Path) -> None:
    class Half(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def __call__(self, x: Any) -> Any:
            return x * 0.5

    tf.saved_model.save(Half(), str(tmp_path))
    program = (
        "import sys; from pathlib import Path\n"
        "from ie_serving.engines.base import EngineOptions\n"
        "from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine\n"
        "OpenVinoEngine().compile(Path(sys.argv[1]), EngineOptions())\n"
        "print(*(name for name in sys.modules if '.savedmodel.host.' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["ie_serving.engines.savedmodel.host.needs"]


def test_a_loop_of_tensorflow_1_over_strings_is_refused_with_what_to_do() -> None:
    v1.disable_control_flow_v2()
    try:
        with v1.Graph().as_default() as made:
            rows = v1.map_fn(tf.strings.lower, v1.placeholder(tf.string, [None]))
            definition = graph.GraphDef.FromString(made.as_graph_def().SerializeToString())
    finally:
        v1.enable_control_flow_v2()
    frame = Frame(Library(definition), definition)
    with pytest.raises(LoadFailed, match=r"TensorFlow 1\. Export it again after .*control_flow_v2"):
        partition([frame.node_output(rows.name)])
