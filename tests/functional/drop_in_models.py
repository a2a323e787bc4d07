"""Writes the models that TensorFlow Serving's test of its command serves. Run as a program.

Source: tensorflow_model_server_test.py of TensorFlow Serving, and the scripts of its test data.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.functional import half_plus_two, tutorial_models

VERSION = half_plus_two.VERSION
X = tf.TensorSpec([None, 1], tf.float32, name="x")
EXAMPLES = tf.TensorSpec([None], tf.string, name="inputs")
KNOWN, UNKNOWN = b"UnicodeTranscode", b"TextNormalizeOps"
"""An operation, and a name of that length that nothing here knows: like the names of TF Text."""

Tensors = dict[str, tf.Tensor]


class HalfPlusTwo(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = tf.Variable(0.5), tf.Variable(2.0)

    def _of_examples(self, serialized: tf.Tensor) -> tf.Tensor:
        features = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        return self.a * tf.io.parse_example(serialized, features)["x"] + self.b

    @tf.function(input_signature=[X])
    def predict(self, x: tf.Tensor) -> Tensors:
        return {"y": self.a * x + self.b}

    @tf.function(input_signature=[EXAMPLES])
    def regress(self, inputs: tf.Tensor) -> Tensors:
        return {"outputs": self._of_examples(inputs)}

    @tf.function(input_signature=[EXAMPLES])
    def classify(self, inputs: tf.Tensor) -> Tensors:
        return {"scores": self._of_examples(inputs)}


def second_generation(directory: Path) -> None:
    """Write a module, then the methods of its signatures, for which TensorFlow 2 does not ask."""
    module = HalfPlusTwo()
    signatures = {
        "serving_default": module.predict,
        "regress_x_to_y": module.regress,
        "classify_x_to_y": module.classify,
    }
    tf.saved_model.save(module, str(directory), signatures=signatures)
    methods = v1.saved_model.signature_def_utils.MethodNameUpdater(str(directory))
    for method in ("regress", "classify"):
        name = f"tensorflow/serving/{method}"
        methods.replace_method_name(f"{method}_x_to_y", name, tags="serve")
    methods.save()


def of_any_rank(directory: Path) -> None:
    root = tf.train.Checkpoint()
    root.v1, root.v2 = tf.Variable(3.0), tf.Variable(2.0)
    root.f = tf.function(lambda x: {"y": root.v1 * root.v2 * x})
    function = root.f.get_concrete_function(tf.TensorSpec(None, tf.float32))
    tf.saved_model.save(root, str(directory), function)


def constants(directory: Path) -> None:
    root = tf.train.Checkpoint()
    any_rank = [tf.TensorSpec(None, tf.float32)]
    root.f = tf.function(lambda x: {"y": 1.0}, input_signature=any_rank)
    root.g = tf.function(lambda x: {"y": 2.0}, input_signature=any_rank)
    signatures = {"serving_default": root.f, "other": root.g}
    tf.saved_model.save(root, str(directory), signatures=signatures)


def unknown_operations(directory: Path) -> None:
    """Write x + 1, which waits for what operations of another library give, and uses none of it."""

    @tf.function(input_signature=[tf.TensorSpec([1], tf.float32, name="x")])
    def call(x: tf.Tensor) -> Tensors:
        texts = tf.strings.unicode_transcode(["A String"], "UTF-8", "UTF-16-BE")
        with tf.control_dependencies([texts]):
            return {"y": x + 1.0}

    module = tf.Module()
    module.call = call
    tf.saved_model.save(module, str(directory), signatures=call)
    file = directory / "saved_model.pb"
    data = file.read_bytes()
    assert KNOWN in data
    file.write_bytes(data.replace(KNOWN, UNKNOWN))


def lite(root: Path) -> None:
    """Write TFLite models: one whose tensors alone have names, one with a signature."""
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [1, 1], name="x")
        y = tf.add(0.5 * x, 2.0, name="y")
        plain = v1.lite.TFLiteConverter.from_session(session, [x], [y]).convert()
    module = HalfPlusTwo()
    function = module.predict.get_concrete_function()
    signed = tf.lite.TFLiteConverter.from_concrete_functions([function], module).convert()
    for name, data in (("lite", plain), ("lite_with_signature", signed)):
        (root / name / VERSION).mkdir(parents=True)
        (root / name / VERSION / "model.tflite").write_bytes(data)


def keras(root: Path) -> None:
    """Write models of Keras 2; the second of replicas on two devices."""
    import tf_keras
    from tf_keras import layers

    def same(x: Any) -> Any:
        return x

    def write(name: str, *inner: Any) -> None:
        model = tf_keras.Sequential([layers.Input((1,), dtype="float32", name="x"), *inner])
        model.add(layers.Lambda(same, name="y"))
        tf.saved_model.save(model, str(root / name / VERSION))

    write("keras")
    with tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        write("keras_mirrored", layers.Dense(1, kernel_initializer="ones"))


def main(root: Path) -> None:
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
    half_plus_two.export(root / "half_plus_two")
    tutorial_models.write_half_plus_three(root / "half_plus_three")
    second_generation(root / "second_generation" / VERSION)
    of_any_rank(root / "of_any_rank" / VERSION)
    constants(root / "constants" / VERSION)
    unknown_operations(root / "unknown_operations" / VERSION)
    lite(root)
    if importlib.util.find_spec("tf_keras") is not None:
        keras(root)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
