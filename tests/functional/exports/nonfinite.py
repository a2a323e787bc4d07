"""Writes a SavedModel of operations that OpenVINO loses NaN in, with what TensorFlow answers.

Run as a program, as `tests/unit/engines/savedmodel/exports.py` describes it.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.unit.engines.savedmodel.exports import expect

MODEL = "odd"
ROWS = np.array(
    [[1, np.nan, -3, 0], [1, 2, -3, 0.5], [np.inf, 1, 2, 3], [-np.inf, 0.25, -1, 0]], np.float32
)
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "above": lambda x: x > 0,
    "not_below": lambda x: x >= 0,
    "all_above": lambda x: tf.reduce_all(x > -9, axis=1),
    "true": lambda x: tf.cast(x, tf.bool),
    "powers": tf.exp,
    "rectified": tf.nn.relu,
    "rectified_to_6": lambda x: tf.nn.relu6(x * 2.0 + 1.0),
    "clipped": lambda x: tf.clip_by_value(x, -1.0, 1.0),
    "at_most": lambda x: tf.minimum(x, 0.5),
    "at_least": lambda x: tf.maximum(0.0, x),
    "least": lambda x: tf.reduce_min(x, axis=1),
    "greatest": lambda x: tf.reduce_max(x, axis=1),
    "softmax": tf.nn.softmax,
    "log_softmax": tf.nn.log_softmax,
    "length_1": lambda x: tf.math.l2_normalize(x, axis=1),
    "sum_of_powers": lambda x: tf.reduce_logsumexp(x, axis=1),
    "filled": lambda x: tf.nn.relu(tf.where(tf.math.is_nan(x), tf.ones_like(x), x)),
    "mean": lambda x: tf.reduce_mean(x, axis=0),
}


def answering(function: Callable[[Any], Any]) -> Any:
    spec = tf.TensorSpec([None, 4], tf.float32, name="x")
    return tf.function(lambda x: {"y": function(x)}, input_signature=[spec])


def write(version: Path, names: Iterable[str]) -> None:
    module = tf.Module()
    for name in names:
        setattr(module, name, answering(FUNCTIONS[name]))
    module.best = answering(lambda x: tf.argmax(x, axis=1))
    signatures = {name: getattr(module, name) for name in (*names, "best")}
    tf.saved_model.save(module, str(version), signatures=signatures)


def main(root: Path) -> None:
    write(root / MODEL / "1", FUNCTIONS)
    expect(root, MODEL, {name: {"x": ROWS} for name in FUNCTIONS})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
