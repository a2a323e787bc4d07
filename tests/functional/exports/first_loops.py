"""What programs of TensorFlow 1 wrote with loops and branches over images, Examples and strings."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.unit.engines.savedmodel.exports import (
    Signatures,
    first_control_flow,
    first_generation,
    signature,
)


def write(root: Path) -> None:
    with first_control_flow():
        first_generation(root / "first_inception" / "1", _inception)
        first_generation(root / "first_rows" / "1", _rows)
        first_generation(root / "first_branches" / "1", _branches)
        first_generation(root / "first_recurrent" / "1", _recurrent)


def _decoded(data: Any) -> Any:
    """Preprocess as `inception_saved_model.py` of TensorFlow Serving does."""
    # The fast transform, which TensorFlow takes by default, is rougher than Pillow's.
    image = tf.image.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.central_crop(image, central_fraction=0.875)
    image = v1.image.resize_bilinear(tf.expand_dims(image, 0), [6, 6], align_corners=False)
    return (tf.squeeze(image, [0]) - 0.5) * 2.0


def _network(images: Any) -> Any:
    kernel = v1.get_variable(
        "kernel", initializer=tf.sin(tf.reshape(tf.range(108.0), [3, 3, 3, 4]))
    )
    return tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME")), [1, 2])


def _inception() -> Signatures:
    """Classify images that lie in Examples, or are sent as they are, as for the ResNet clients."""
    serialized = v1.placeholder(tf.string, name="tf_example")
    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string, "")}
    data = v1.parse_example(serialized, features)["image/encoded"]
    files = v1.placeholder(tf.string, [None], name="image_bytes")
    with v1.variable_scope("network", reuse=v1.AUTO_REUSE):
        logits = _network(tf.map_fn(_decoded, tf.reshape(data, [-1]), tf.float32))
        first = tf.transpose(tf.map_fn(_decoded, files, tf.float32), [0, 3, 1, 2])
        answer = _network(tf.transpose(first, [0, 2, 3, 1]))
    scores, best = tf.nn.top_k(logits, 2)
    classes = tf.gather(tf.constant(["cat", "dog", "owl", "yak"]), best)
    ids = tf.argmax(answer, axis=1)
    return {
        "serving_default": signature({"image_bytes": files}, {"classes": ids, "p": answer}),
        "predict_images": signature({"images": serialized}, {"classes": classes, "scores": scores}),
    }


def _rows() -> Signatures:
    """Map rows of strings and Examples, in loops within one another too."""
    words = v1.placeholder(tf.string, [None], name="words")
    times = v1.placeholder(tf.int32, [], name="times")
    examples = v1.placeholder(tf.string, [None], name="examples")

    def parsed(row: Any) -> Any:
        features = {
            "age": tf.io.FixedLenFeature([1], tf.float32),
            "job": tf.io.FixedLenFeature([], tf.string, "none"),
            "tags": tf.io.VarLenFeature(tf.string),
        }
        found = tf.io.parse_single_example(row, features)
        return found["age"] * 0.5, tf.strings.upper(found["job"]), tf.size(found["tags"].values)

    age, job, tags = tf.map_fn(parsed, examples, (tf.float32, tf.string, tf.int32))
    texts = {
        "map": tf.map_fn(lambda row: tf.strings.join([row, "!"]), words),
        "fold": tf.foldl(lambda so_far, row: tf.strings.join([so_far, row]), words),
        "pairs": tf.map_fn(
            lambda row: tf.map_fn(lambda other: tf.strings.join([row, other]), words), words
        ),
        "times": v1.while_loop(
            lambda at, _: at < times,
            lambda at, text: (at + 1, tf.strings.join([text, words])),
            [tf.constant(0), words],
        )[1],
    }
    weights = tf.constant([[1.0, 2.0]])
    return {
        "serving_default": signature({"words": words, "times": times}, texts),
        "examples": signature({"e": examples}, {"y": age @ weights, "job": job, "tags": tags}),
    }


def _branches() -> Signatures:
    """Branch over strings: nested, with constants alone, within loops and around them."""
    flag = v1.placeholder(tf.bool, [], name="flag")
    words = v1.placeholder(tf.string, [None], name="words")
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    first = words[0]
    is_a = tf.equal(first, "a")
    nested = v1.cond(
        flag,
        lambda: v1.cond(is_a, lambda: tf.strings.upper(words), lambda: words),
        lambda: v1.cond(is_a, lambda: words, lambda: tf.strings.join([words, first])),
    )
    each = tf.map_fn(
        lambda row: v1.cond(tf.equal(row, first), lambda: "first", lambda: tf.strings.upper(row)),
        words,
    )
    looped = v1.cond(flag, lambda: tf.map_fn(tf.strings.upper, words), lambda: words)
    number, named = v1.cond(is_a, lambda: (x * 2.0, "twice"), lambda: (x, first))
    outputs = {
        "nested": nested,
        "each": each,
        "looped": looped,
        "constant": v1.cond(flag, lambda: tf.constant("yes"), lambda: tf.constant("no")),
        "named": named,
        "y": number @ tf.ones([4, 2]),
    }
    return {"serving_default": signature({"flag": flag, "words": words, "x": x}, outputs)}


class _Cell:
    """A cell as `dynamic_rnn` takes it."""

    state_size = output_size = 4

    def zero_state(self, rows: Any, dtype: Any) -> Any:
        return tf.zeros([rows, 4], dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        state = tf.tanh(inputs @ tf.constant(np.eye(8, 4, dtype=np.float32)) + state * 0.5)
        return state, state


def _recurrent() -> Signatures:
    """Run a recurrent network over numbers, and over numbers that a loop makes of strings."""
    x = v1.placeholder(tf.float32, [None, 5, 8], name="x")
    steps = v1.placeholder(tf.int32, [None], name="steps")
    words = v1.placeholder(tf.string, [None], name="words")
    outputs, state = v1.nn.dynamic_rnn(_Cell(), x, steps, dtype=tf.float32)
    sizes = tf.map_fn(lambda row: tf.cast(tf.strings.length(row), tf.float32), words, tf.float32)
    read, _ = v1.nn.dynamic_rnn(_Cell(), x * sizes[:, None, None], steps, dtype=tf.float32)
    return {
        "serving_default": signature({"x": x, "steps": steps}, {"o": outputs, "state": state}),
        "words": signature({"x": x, "steps": steps, "words": words}, {"o": read}),
    }
