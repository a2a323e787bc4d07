"""Writes SavedModels as TensorFlow's users export them, each with what TensorFlow answers.

Run as a program: below the directory given, every model becomes `NAME/1`, and every signature of it
that has inputs here `NAME/expected/SIGNATURE.pickle`, a pair of inputs and outputs by alias.
"""

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

Signatures = Mapping[str, Any]


def example(**features: Any) -> bytes:
    """Serialize an Example; the first value of a feature tells its kind."""
    made = tf.train.Example()
    for key, values in features.items():
        feature = made.features.feature[key]
        kinds = {float: feature.float_list, bytes: feature.bytes_list, int: feature.int64_list}
        kinds[type(values[0])].value.extend(values)
    return bytes(made.SerializeToString())


EXAMPLES = [
    example(a=[1.0, 2.0], b=[3], v=[5, 6], w=[0.5], t=[b"x", b"yy"]),
    example(a=[0.5, -1.0], v=[7], t=[b"z"]),
    example(a=[0.0, 4.0], b=[-2], w=[1.5, 2.5, 3.5]),
]
X = np.array([[1, 2], [3, -4], [0.5, 0.25]], np.float32)


def strings(*values: bytes) -> Any:
    return np.array(values, np.object_)


def first_generation(path: Path, graph: Callable[[], Signatures]) -> None:
    """Write a graph of TensorFlow 1 with a session."""
    with v1.Graph().as_default() as made, v1.Session(graph=made) as session:
        signatures = graph()
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map=signatures, main_op=v1.tables_initializer()
        )
        builder.save()


@contextmanager
def first_control_flow() -> Iterator[None]:
    """Let TensorFlow write loops and branches as TensorFlow 1 did."""
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def signature(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any], method: str = "predict"
) -> Any:
    info = v1.saved_model.utils.build_tensor_info
    return v1.saved_model.signature_def_utils.build_signature_def(
        {alias: info(tensor) for alias, tensor in inputs.items()},
        {alias: info(tensor) for alias, tensor in outputs.items()},
        f"tensorflow/serving/{method}",
    )


def plain_graph() -> Signatures:
    """Inputs with defaults, missing shapes, and outputs that nothing computes."""
    x = v1.placeholder(tf.float32, [None, 2], name="x")
    keep = v1.placeholder_with_default(tf.constant(0.5), [], name="keep")
    weights = v1.get_variable("weights", initializer=[[1.0], [2.0]])
    y = tf.matmul(x, weights) * keep
    without_shapes = signature({"x": x}, {"y": y})
    without_shapes.inputs["x"].ClearField("tensor_shape")
    without_shapes.outputs["y"].ClearField("tensor_shape")
    names, threshold = tf.constant(["a", "b"], name="names"), tf.constant(0.25, name="threshold")
    flag = tf.constant([True, False], name="flag")
    held = tf.identity(weights, name="held")
    passed = tf.stop_gradient(tf.identity(x))
    constants = {"y": y, "names": names, "threshold": threshold, "held": held, "flag": flag}
    declared = signature({"x": x, "keep": keep}, {"y": y})
    if hasattr(declared, "defaults"):
        declared.defaults["keep"].CopyFrom(tf.make_tensor_proto(0.25))
    return {
        "serving_default": signature({"x": x, "keep": keep}, {"y": y}),
        "declared_default": declared,
        "without_keep": signature({"x": x}, {"y": y}),
        "without_shapes": without_shapes,
        "constants": signature({"x": x}, constants),
        "only_constants": signature({"x": x}, {"names": names, "double": weights * 2.0}),
        "twice": signature({"x": x}, {"y": y, "z": y}),
        "echo": signature({"x": x}, {"y": y, "x2": x, "x3": passed}),
        "checked": signature({"x": x}, {"y": y, "x4": tf.debugging.check_numerics(passed, "x")}),
        "only_echo": signature({"x": x}, {"x3": passed}),
    }


def estimator_graph() -> Signatures:
    """What Estimators export: Examples parsed in the graph, dense, with defaults, sparse."""
    serialized = v1.placeholder(tf.string, [None], name="input_example_tensor")
    parsed = tf.io.parse_example(
        serialized,
        {
            "a": tf.io.FixedLenFeature([2], tf.float32),
            "b": tf.io.FixedLenFeature([1], tf.int64, default_value=[7]),
            "w": tf.io.VarLenFeature(tf.float32),
        },
    )
    kernel = v1.get_variable("kernel", initializer=[[1.0, 2.0, 3.0], [2.0, 1.0, 0.0]])
    total = tf.reduce_sum(tf.sparse.to_dense(parsed["w"]), axis=1, keepdims=True)
    logits = tf.matmul(parsed["a"], kernel) + tf.cast(parsed["b"], tf.float32) + total
    scores = tf.nn.softmax(logits)
    return {
        "serving_default": signature({"inputs": serialized}, {"scores": scores}, "classify"),
        "predict": signature({"examples": serialized}, {"p": scores, "b": parsed["b"]}),
        "regression": signature({"inputs": serialized}, {"outputs": logits[:, 0]}, "regress"),
    }


class Module(tf.Module):  # type: ignore[misc]
    """What tf.Module and TFX export: functions in functions."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable([[1.0], [2.0]])
        self.threshold = tf.Variable(3.5)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {
            "a": tf.io.FixedLenFeature([2], tf.float32),
            "v": tf.io.VarLenFeature(tf.int64),
        }
        parsed = tf.io.parse_example(examples, features)
        return {
            "y": tf.matmul(parsed["a"], self.kernel),
            "v": tf.sparse.to_dense(parsed["v"], default_value=-1),
        }

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def constants(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "y": tf.matmul(x, self.kernel),
            "threshold": self.threshold,
            "names": tf.constant(["u", "v"]),
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def features(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Every kind of feature, given back; two of them pass through arithmetic."""
        parsed = tf.io.parse_example(
            examples,
            {
                "a": tf.io.FixedLenFeature([2], tf.float32),
                "b": tf.io.FixedLenFeature([], tf.int64, default_value=9),
                "w": tf.io.FixedLenSequenceFeature(
                    [], tf.float32, allow_missing=True, default_value=-1.0
                ),
                "t": tf.io.VarLenFeature(tf.string),
                "v": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
            },
        )
        return {
            "b": parsed["b"] * 2,
            "w": parsed["w"],
            "sum": tf.reduce_sum(parsed["w"], axis=1),
            "texts": parsed["t"].values,
            "places": parsed["t"].indices,
            "size": parsed["t"].dense_shape,
            "values": parsed["v"].values,
            "splits": parsed["v"].row_splits,
        }

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="example")])
    def single(self, example: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {
            "a": tf.io.FixedLenFeature([2], tf.float32),
            "v": tf.io.VarLenFeature(tf.int64),
        }
        parsed = tf.io.parse_single_example(example, features)
        return {"a": parsed["a"] * 2.0, "v": parsed["v"].values}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="s")])
    def lines(self, s: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"o": tf.io.decode_csv(s, [[0.0]])[0]}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
    def any_rank(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.nn.relu(x) * self.threshold}


INPUTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "plain": {
        "serving_default": {"x": X, "keep": np.float32(2)},
        "without_keep": {"x": X},
        "without_shapes": {"x": X},
        "constants": {"x": X},
        "only_constants": {"x": X},
        "twice": {"x": X},
        "echo": {"x": X},
        "only_echo": {"x": X},
    },
    "estimator": {
        "serving_default": {"inputs": strings(*EXAMPLES)},
        "predict": {"examples": strings(*EXAMPLES)},
        "regression": {"inputs": strings(*EXAMPLES)},
    },
    "module": {
        "serving_default": {"examples": strings(*EXAMPLES)},
        "constants": {"x": X},
        "features": {"examples": strings(*EXAMPLES)},
        "single": {"example": EXAMPLES[0]},
        "any_rank": {"x": X},
    },
}


def expect(root: Path, name: str, asked: Mapping[str, Mapping[str, Any]]) -> None:
    """Ask TensorFlow."""
    (root / name / "expected").mkdir()
    for key, inputs in asked.items():
        with v1.Graph().as_default() as made, v1.Session(graph=made) as session:
            loaded = v1.saved_model.load(session, ["serve"], str(root / name / "1"))
            definition = loaded.signature_def[key]
            outputs = session.run(
                {alias: info.name for alias, info in definition.outputs.items()},
                {definition.inputs[alias].name: value for alias, value in inputs.items()},
            )
        (root / name / "expected" / f"{key}.pickle").write_bytes(
            pickle.dumps((dict(inputs), outputs))
        )


def main(root: Path) -> None:
    first_generation(root / "plain" / "1", plain_graph)
    first_generation(root / "estimator" / "1", estimator_graph)
    module = Module()
    signatures = {
        "serving_default": module.serve_examples,
        "constants": module.constants,
        "features": module.features,
        "single": module.single,
        "lines": module.lines,
        "any_rank": module.any_rank,
    }
    tf.saved_model.save(module, str(root / "module" / "1"), signatures=signatures)
    for name in INPUTS:
        expect(root, name, INPUTS[name])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
