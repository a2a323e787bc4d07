"""Writes SavedModels with an operation that nothing here runs, below loops and branches."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

IMAGES = tf.TensorSpec([None], tf.string, "x")
SQUARES = tf.TensorSpec([None, 2, 2], tf.float32, "x")
ROW = tf.TensorSpec([4], tf.float32, "x")


def over_images(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def each(encoded: Any) -> Any:
        return compute(tf.cast(tf.io.decode_jpeg(encoded, channels=3), tf.float32) / 255.0)

    return lambda x: tf.map_fn(each, x, fn_output_signature=tf.float32)


def by_area(image: Any) -> Any:
    return tf.image.resize(image, [8, 8], method="area")


def in_branch(image: Any) -> Any:
    large = tf.shape(image)[0] > 9
    return tf.cond(large, lambda: tf.image.adjust_hue(image, 0.2), lambda: image)


def encoded(x: Any) -> Any:
    return tf.map_fn(lambda each: tf.io.encode_jpeg(tf.io.decode_jpeg(each)), x)


def repeated(x: Any) -> Any:
    def body(i: Any, y: Any) -> tuple[Any, Any]:
        return i + 1, y + tf.linalg.svd(y, compute_uv=False)[:, :, None]

    return tf.while_loop(lambda i, _: i < 3, body, (tf.constant(0), x))[1]


def chosen(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 2, lambda: tf.linalg.qr(x)[0], lambda: x)


def spectrum(x: Any) -> Any:
    return tf.math.real(tf.signal.ifft(tf.cast(x, tf.complex64)))


def along(x: Any) -> Any:
    return tf.raw_ops.ArgMax(input=x, dimension=tf.cast(x[0], tf.int32) - 1, name="best")


def from_jax(x: Any) -> Any:
    """Call an empty program; in one of JAX it is StableHLO."""
    called = gen_xla_ops.xla_call_module(
        args=[x], version=9, module="", Sout=[[4]], Tout=[tf.float32], platforms=["CPU"]
    )
    return called[0]


def from_message(x: Any) -> Any:
    decoded = tf.io.decode_proto(
        tf.strings.as_string(x), "tensorflow.Example", ["features"], [tf.string]
    )
    return decoded.sizes


GRAPHS = {
    "by_area": (over_images(by_area), IMAGES),
    "in_branch": (over_images(in_branch), IMAGES),
    "encoded": (encoded, IMAGES),
    "mapped": (lambda x: tf.map_fn(lambda y: tf.linalg.eigh(y)[0], x), SQUARES),
    "repeated": (repeated, SQUARES),
    "chosen": (chosen, SQUARES),
    "spectrum": (spectrum, ROW),
    "along": (along, ROW),
    "from_jax": (from_jax, ROW),
    "from_message": (from_message, ROW),
}


def joined(x: Any) -> Any:
    """Join one row, two rows and so on."""
    rows = tf.TensorArray(tf.float32, tf.shape(x)[0], infer_shape=False)
    return v1.while_loop(
        lambda at, _: at < tf.shape(x)[0],
        lambda at, array: (at + 1, array.write(at, x[: at + 1])),
        [tf.constant(0), rows],
    )[1].concat()


FROZEN = {
    "first_mapped": lambda x: tf.map_fn(lambda y: tf.linalg.svd(y, compute_uv=False), x),
    "first_joined": joined,
}
"""Graphs of TensorFlow 1."""


def write_frozen(directory: Path, compute: Callable[[Any], Any]) -> None:
    with tf.Graph().as_default() as made:
        tf.identity(compute(v1.placeholder(tf.float32, [None, 2, 2], name="x")), name="y")
    directory.mkdir()
    (directory / "model.pb").write_bytes(made.as_graph_def().SerializeToString())


if __name__ == "__main__":
    v1.disable_control_flow_v2()
    for name, compute in FROZEN.items():
        write_frozen(Path(sys.argv[1], name), compute)
    v1.enable_control_flow_v2()
    for name, (graph, spec) in GRAPHS.items():
        module = tf.Module()
        module.f = tf.function(graph, input_signature=[spec])
        tf.saved_model.save(module, str(Path(sys.argv[1], name)), signatures=module.f)
