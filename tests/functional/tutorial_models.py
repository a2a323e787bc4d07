"""The models of TensorFlow Serving's tutorials, made by real tensorflow with weights of our own.

Source of their layout: mnist_saved_model.py, the REST page's half_plus_three, the ResNet clients'
two kinds of model (images as tensors, images as JPEG) and the warm-up page of TensorFlow Serving.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    predict_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from tests.unit.engines.savedmodel.exports import Signatures, first_generation, signature

_random = np.random.default_rng(3)
WEIGHTS = (_random.normal(size=(784, 10)) / 28).astype(np.float32)
BIAS = _random.normal(size=10).astype(np.float32)
KERNEL = _random.normal(size=(3, 10)).astype(np.float32)


def mnist(images: Any) -> Any:
    """Compute what the softmax regression answers, in numpy."""
    logits = np.asarray(images) @ WEIGHTS + BIAS
    scores = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


def write_mnist(base_path: Path) -> None:
    first_generation(base_path / "1", _mnist)
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "mnist", "predict_images"
    request.inputs["images"].CopyFrom(tf.make_tensor_proto(np.zeros((1, 784), np.float32)))
    _warm_up(base_path / "1", {"predict_log": prediction_log_pb2.PredictLog(request=request)})


def _mnist() -> Signatures:
    serialized = v1.placeholder(tf.string, name="tf_example")
    parsed = v1.parse_example(serialized, {"x": tf.io.FixedLenFeature([784], tf.float32)})
    x = tf.identity(parsed["x"], name="x")
    w, b = v1.Variable(WEIGHTS, use_resource=False), v1.Variable(BIAS, use_resource=False)
    y = tf.nn.softmax(x @ w + b, name="y")
    values, indices = tf.nn.top_k(y, 10)
    names = tf.lookup.KeyValueTensorInitializer(
        tf.range(10, dtype=tf.int64), tf.constant([str(i) for i in range(10)])
    )
    classes = tf.lookup.StaticHashTable(names, "UNK").lookup(tf.cast(indices, tf.int64))
    return {
        "predict_images": signature({"images": x}, {"scores": y}),
        "serving_default": signature(
            {"inputs": serialized}, {"classes": classes, "scores": values}, "classify"
        ),
    }


def write_half_plus_three(base_path: Path) -> None:
    first_generation(base_path / "00000123", _half_plus_three)
    classify, regress, several = (
        classification_pb2.ClassificationRequest(),
        regression_pb2.RegressionRequest(),
        inference_pb2.MultiInferenceRequest(),
    )
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(2.0)
    task = several.tasks.add(method_name="tensorflow/serving/regress")
    for spec, method in (
        (classify.model_spec, "classify"),
        (regress.model_spec, "regress"),
        (task.model_spec, "regress"),
    ):
        spec.name, spec.signature_name = "half_plus_three", f"tensorflow/serving/{method}"
    for request in (classify, regress, several):
        request.input.example_list.examples.append(example)
    _warm_up(
        base_path / "00000123",
        {
            "classify_log": prediction_log_pb2.ClassifyLog(request=classify),
            "regress_log": prediction_log_pb2.RegressLog(request=regress),
            "multi_inference_log": prediction_log_pb2.MultiInferenceLog(request=several),
        },
    )


def _half_plus_three() -> Signatures:
    a, b = v1.Variable(0.5, name="a"), v1.Variable(3.0, name="b")
    serialized = v1.placeholder(tf.string, name="tf_example")
    parsed = v1.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})
    x = tf.identity(parsed["x"], name="x")
    y = tf.add(a * x, b, name="y")
    return {
        "serving_default": signature({"x": x}, {"y": y}),
        "tensorflow/serving/regress": signature({"inputs": serialized}, {"outputs": y}, "regress"),
        "tensorflow/serving/classify": signature({"inputs": serialized}, {"scores": y}, "classify"),
    }


def write_resnet(base_path: Path) -> None:
    """Write what the clients call a ResNet model: an image of any size, scores of the classes."""
    first_generation(base_path / "1", _resnet)


def _resnet() -> Signatures:
    image = v1.placeholder(tf.float32, [None, None, None, 3], name="input_1")
    pooled = tf.reduce_mean(image, [1, 2])
    scores = tf.nn.softmax(pooled @ v1.Variable(KERNEL), name="activation_49")
    return {"serving_default": signature({"input_1": image}, {"activation_49": scores})}


def write_resnet_of_jpeg(base_path: Path) -> None:
    """Write the older kind of model, which the clients send files: `image_bytes`."""
    first_generation(base_path / "1", _resnet_of_jpeg)


def image_of(file: Any) -> Any:
    """Decode and scale one file as the model does."""
    pixels = tf.image.decode_jpeg(file, channels=3, dct_method="INTEGER_ACCURATE")
    return tf.image.resize(tf.cast(pixels, tf.float32) / 255.0, [16, 16])


def _resnet_of_jpeg() -> Signatures:
    files = v1.placeholder(tf.string, [None], name="input_tensor")
    images = tf.map_fn(image_of, files, fn_output_signature=tf.float32)
    pooled = tf.reduce_mean(images, [1, 2])
    scores = tf.nn.softmax(pooled @ v1.Variable(KERNEL), name="softmax_tensor")
    outputs = {"probabilities": scores, "classes": tf.argmax(scores, axis=1)}
    return {"serving_default": signature({"image_bytes": files}, outputs)}


def _warm_up(version: Path, logs: Mapping[str, Any]) -> None:
    directory = version / "assets.extra"
    directory.mkdir()
    with tf.io.TFRecordWriter(str(directory / "tf_serving_warmup_requests")) as writer:
        for field, log in logs.items():
            record = prediction_log_pb2.PredictionLog(**{field: log})
            writer.write(record.SerializeToString())
