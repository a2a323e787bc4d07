"""The model of TensorFlow Serving's tutorial, as its export script lays it out.

Source: saved_model_half_plus_two.py of TensorFlow Serving, whose CPU export is the directory
saved_model_half_plus_two_cpu/00000123: x of shape [-1, 1] is a feature that ParseExample
gives; predict, regress and classify signatures; an asset, whose name the main op assigns to a
variable of strings that is not saved.
"""

import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

VERSION = "00000123"


def export(base_path: Path) -> Path:
    """Write version 123 below `base_path`, with real tensorflow."""
    directory = base_path / VERSION
    graph = v1.Graph()
    with (
        graph.as_default(),
        v1.Session(graph=graph) as session,
        tempfile.TemporaryDirectory() as assets,
    ):
        signatures = _signatures()
        main_op = _with_asset(Path(assets))
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(directory))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map=signatures,
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=main_op,
        )
        builder.save()
    return directory


def _with_asset(directory: Path) -> Any:
    asset = directory / "notes.txt"
    asset.write_text("read by nobody")
    v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, tf.constant(str(asset)))
    name = v1.Variable(asset.name, name="asset_name", trainable=False, collections=[])
    return tf.group(name.assign(asset.name))


def _signatures() -> dict[str, Any]:
    a = v1.get_variable("a", initializer=0.5)
    b = v1.get_variable("b", initializer=2.0)
    c = v1.get_variable("c", initializer=3.0)
    serialized = v1.placeholder(tf.string, [None], name="tf_example")
    features = {
        "x": tf.io.FixedLenFeature(shape=[1], dtype=tf.float32),
        "x2": tf.io.FixedLenFeature(shape=[1], dtype=tf.float32, default_value=[0.0]),
    }
    example = tf.io.parse_example(serialized, features)
    x = tf.identity(example["x"], name="x")
    x2 = tf.identity(example["x2"], name="x2")
    y = v1.add(v1.multiply(a, x), b, name="y")
    y2 = v1.add(v1.multiply(a, x), c, name="y2")
    y3 = v1.add(v1.multiply(a, x2), c, name="y3")
    return {
        "serving_default": _define("predict", {"x": x}, {"y": y}),
        "regress_x_to_y": _define("regress", {"inputs": serialized}, {"outputs": y}),
        "regress_x_to_y2": _define("regress", {"inputs": serialized}, {"outputs": y2}),
        "regress_x2_to_y3": _define("regress", {"inputs": x2}, {"outputs": y3}),
        "classify_x_to_y": _define("classify", {"inputs": serialized}, {"scores": y}),
        "classify_x2_to_y3": _define("classify", {"inputs": x2}, {"scores": y3}),
    }


def _define(method: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    info = v1.saved_model.utils.build_tensor_info
    signature = v1.saved_model.signature_def_utils.build_signature_def(
        {alias: info(tensor) for alias, tensor in inputs.items()},
        {alias: info(tensor) for alias, tensor in outputs.items()},
        f"tensorflow/serving/{method}",
    )
    for declared in signature.inputs.values():
        if declared.dtype == tf.string.as_datatype_enum:
            declared.tensor_shape.Clear()
            declared.tensor_shape.unknown_rank = True
    return signature
