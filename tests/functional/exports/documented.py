"""Writes SavedModels as TensorFlow Serving's documentation and tests have them. Run as a program.

`half_plus_three` declares DT_FLOAT for the Examples of its signature for Regress, and DT_STRING is
in its graph; `others` has signatures with complex64 and with a resource among its outputs.
"""

import sys
from pathlib import Path

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

REGRESS = v1.saved_model.regression_signature_def


def half_plus_three(directory: Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, name="tf_example")
        features = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        x = v1.parse_example(serialized, features)["x"]
        half = v1.get_variable("a", initializer=0.5)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(directory))
        signature = REGRESS(serialized, x * half + 3.0)
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"regress": signature, "serving_default": signature}
        )
        builder.save()
    file = directory / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for definition in model.meta_graphs[0].signature_def.values():
        definition.inputs["inputs"].dtype = types_pb2.DT_FLOAT
    file.write_bytes(model.SerializeToString())


def others(directory: Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], name="x")
        counter = v1.get_variable("counter", initializer=0.0, use_resource=True)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(directory))
        made = {
            "serving_default": {"y": x * 2.0},
            "complex": {"y": x * 3.0, "c": tf.complex(x, x)},
            "reset_counter": {"counter": counter.handle},
        }
        sign = v1.saved_model.predict_signature_def
        builder.add_meta_graph_and_variables(
            session, ["serve"], {name: sign({"x": x}, given) for name, given in made.items()}
        )
        builder.save()


if __name__ == "__main__":
    half_plus_three(Path(sys.argv[1]) / "half_plus_three" / "1")
    others(Path(sys.argv[1]) / "others" / "1")
