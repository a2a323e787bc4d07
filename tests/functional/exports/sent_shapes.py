"""Writes a SavedModel of TensorFlow 1, and what its session answers to shapes not declared.

Run as a program: below the directory given, `shapes/1` and `asked.pickle`, a list of signatures,
inputs and outputs; the outputs are None where TensorFlow refuses the shapes.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.core.protobuf import config_pb2

Asked = tuple[str, dict[str, Any]]

_random = np.random.default_rng(26)
IDS = np.array([[1, 2, 3, 4, 5, 6]], np.int32)
ROWS = _random.random((2, 6)).astype(np.float32)


def floats(*shape: int) -> Any:
    return _random.random(shape).astype(np.float32)


NO_BATCH: Asked = ("pool", {"image": floats(8, 8, 1)})
"""TensorFlow's own convolution refuses it; that of oneDNN, on processors where it is the default,
ends the process."""

ASKED: list[Asked] = [
    ("half", {"x": floats(3)}),
    ("half", {"x": floats(2, 2)}),
    ("half", {"x": floats(0)}),
    # What clients of BERT post where the signature says (-1); the answer does not depend on it.
    ("bert", {"ids": IDS, "label_ids": np.array([[0]], np.int32)}),
    ("bert", {"ids": IDS, "label_ids": np.array(0, np.int32)}),
    ("bert", {"ids": IDS[0], "label_ids": np.array([[0]], np.int32)}),
    ("bert", {"ids": IDS.repeat(2, 0), "label_ids": np.array([0], np.int32)}),
    ("keep", {"rows": ROWS, "keep_prob": np.ones(1, np.float32)}),
    ("keep", {"rows": ROWS, "keep_prob": np.ones((1, 1), np.float32)}),
    ("keep", {"rows": ROWS, "keep_prob": np.ones(2, np.float32)}),
    ("pool", {"image": floats(3, 8, 8, 1)}),
    ("pool", {"image": floats(1, 16, 5, 1)}),
    NO_BATCH,
    ("flat", {"image": floats(3, 8, 8, 1)}),
    ("flat", {"image": floats(1, 5, 8, 1)}),
    # OpenVINO's product takes vectors, and its Tile other ranks.
    ("product", {"rows": floats(6)}),
    ("product", {"rows": floats(2, 3, 6)}),
    ("product", {"rows": floats(2, 7)}),
    ("tile", {"x": floats(1, 2)}),
    ("ensured", {"x": floats(2)}),
    ("seen", {"image": floats(2, 5, 8, 1)}),
    ("first", {"rows": floats(2, 7)}),
    # OpenVINO repeats a single value, and takes what there is of a part.
    ("biased", {"rows": floats(2, 1)}),
    ("summed", {"rows": floats(2, 1)}),
    ("summed by letters", {"rows": floats(2, 1)}),
    ("part", {"rows": floats(2, 1)}),
    ("place", {"rows": floats(2, 1)}),
]


def signatures() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    x = v1.placeholder(tf.float32, [1], name="x")
    ids = v1.placeholder(tf.int32, [1, 6], name="ids")
    labels = v1.placeholder(tf.int32, [None], name="label_ids")
    keep = v1.placeholder(tf.float32, [], name="keep_prob")
    rows = v1.placeholder(tf.float32, [None, 6], name="rows")
    image = v1.placeholder(tf.float32, [1, 8, 8, 1], name="image")
    table, of_words = v1.get_variable("table", [9, 4]), v1.get_variable("of_words", [24, 3])
    kernel, of_pixels = v1.get_variable("kernel", [6, 2]), v1.get_variable("of_pixels", [128, 2])
    words = tf.nn.embedding_lookup(table, tf.reshape(tf.expand_dims(ids, -1), [-1]))
    seen = tf.nn.conv2d(image, v1.get_variable("filters", [3, 3, 1, 2]), 1, "SAME")
    return {
        "half": ({"x": x}, {"y": x * 0.5 + 2.0}),
        "bert": (
            {"ids": ids, "label_ids": labels},
            {"logits": tf.matmul(tf.reshape(words, [1, 24]), of_words)},
        ),
        "keep": (
            {"rows": rows, "keep_prob": keep},
            {"y": tf.matmul(tf.nn.dropout(rows, rate=1 - keep), kernel)},
        ),
        "pool": ({"image": image}, {"y": tf.reduce_mean(seen, [1, 2])}),
        "flat": ({"image": image}, {"y": tf.matmul(tf.reshape(seen, [-1, 128]), of_pixels)}),
        "product": ({"rows": rows}, {"y": tf.matmul(rows, kernel)}),
        "tile": ({"x": x}, {"y": tf.tile(x, [2])}),
        "seen": ({"image": image}, {"y": tf.nn.bias_add(seen, [1.0, 2.0])}),
        "first": ({"rows": rows}, {"y": rows[:, 0]}),
        "biased": ({"rows": rows}, {"y": tf.nn.bias_add(rows, tf.ones(6))}),
        "summed": ({"rows": rows}, {"y": tf.raw_ops.AddN(inputs=[rows, tf.constant(ROWS)])}),
        "summed by letters": ({"rows": rows}, {"y": tf.einsum("ab,bc->ac", rows, kernel)}),
        "part": ({"rows": rows}, {"y": tf.slice(rows, [0, 0], [-1, 2])}),
        "place": ({"rows": rows}, {"y": rows[:, 2]}),
        "ensured": ({"x": x}, {"y": tf.ensure_shape(tf.exp(x), [1])}),
    }


def write(directory: str) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        made = {k: v1.saved_model.predict_signature_def(*v) for k, v in signatures().items()}
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(directory)
        builder.add_meta_graph_and_variables(session, ["serve"], made)
        builder.save()


def answers(directory: str) -> list[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    """Ask as TensorFlow Serving does, without the checks of Python's `Session.run`."""
    found = []
    with tf.Graph().as_default(), v1.Session() as session:
        definitions = v1.saved_model.load(session, ["serve"], directory).signature_def
        for asked in ASKED:
            name, inputs = asked
            if asked is NO_BATCH:
                found.append((name, inputs, None))
                continue
            given, outputs = definitions[name].inputs, definitions[name].outputs
            options = config_pb2.CallableOptions()
            options.feed.extend(given[alias].name for alias in inputs)
            options.fetch.extend(info.name for info in outputs.values())
            run = session._make_callable_from_options(options)
            try:
                answer = dict(zip(outputs, run(*inputs.values()), strict=True))
            except tf.errors.InvalidArgumentError:
                answer = None
            found.append((name, inputs, answer))
    return found


def main(root: Path) -> None:
    version = str(root / "shapes" / "1")
    write(version)
    (root / "asked.pickle").write_bytes(pickle.dumps(answers(version)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
