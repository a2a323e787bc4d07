"""Writes SavedModels that only TensorFlow runs in full, with tensorflow. Run as a program."""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


def spec(name: str, dtype: Any = tf.string, shape: Any = (None,)) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype, name=name)


def held(s: tf.Tensor) -> tf.Tensor:
    """Give `s`, by way of the clock: no engine but TensorFlow has an operation for that."""
    return tf.where(tf.timestamp() > 0.0, s, "")


class Mixed(tf.Module):  # type: ignore[misc]
    """One signature for OpenVINO, others for TensorFlow."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable([[1.0], [2.0]])
        self.total = tf.Variable(0, dtype=tf.int64)

    @tf.function(input_signature=[spec("x", tf.float32, [None, 2])])
    def dense(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.matmul(x, self.kernel)}

    @tf.function(input_signature=[spec("n", tf.int64, [])])
    def count(self, n: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"total": self.total.assign_add(n)}

    @tf.function(input_signature=[spec("n", tf.int64, [])])
    def counted(self, n: tf.Tensor) -> dict[str, tf.Tensor]:
        """Only read, but another signature changes it."""
        return {"total": self.total + n}

    @tf.function(input_signature=[spec("s")])
    def split(self, s: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"letters": tf.strings.unicode_split(held(s), "UTF-8").to_tensor()}

    @tf.function(
        input_signature=[
            spec("s"),
            spec("d", tf.float64),
            spec("i", tf.int64),
            spec("h", tf.bfloat16),
        ]
    )
    def every(self, s: tf.Tensor, d: tf.Tensor, i: tf.Tensor, h: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "s": tf.strings.unicode_transcode(held(s), "UTF-8", "UTF-16-BE"),
            "d": d / 3,
            "i": i * 3,
            "h": h * 2,
            "none": s[:0],
            "scalar": tf.strings.unicode_transcode(s[0], "UTF-8", "UTF-8"),
        }

    @tf.function(input_signature=[spec("s", tf.string, []), spec("x", tf.float32)])
    def large(self, s: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
        length = tf.strings.length(tf.strings.unicode_transcode(held(s), "UTF-8", "UTF-8"))
        return {"y": x + tf.cast(length, tf.float32)}

    @tf.function(input_signature=[spec("seconds", tf.float64, [])])
    def wait(self, seconds: tf.Tensor) -> dict[str, tf.Tensor]:
        end = tf.timestamp() + seconds
        rounds = tf.while_loop(lambda i: tf.timestamp() < end, lambda i: [i + 1], [tf.constant(0)])
        return {"waited": rounds[0] >= 0}

    @tf.function(input_signature=[spec("s"), spec("sizes", tf.int32)])
    def shaped(self, s: tf.Tensor, sizes: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"s": tf.reshape(held(s), sizes)}


class KerasWithin(tf.Module):  # type: ignore[misc]
    """A Keras 3 model as an attribute, whose variables a session restores under other names."""

    rows = np.array([[1, -2], [3, 4]], np.float32)

    def __init__(self) -> None:
        super().__init__()
        layers = [tf.keras.layers.Dense(2, name=f"layer_of_a_long_name_{n}") for n in range(40)]
        self.model = tf.keras.Sequential([tf.keras.Input((2,)), *layers])

    @tf.function(input_signature=[spec("x", tf.float32, [None, 2])])
    def scores(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        now = tf.cast(tf.timestamp() > 0.0, tf.float32)
        return {"y": self.model(x) * now}


TEXTS = ["größer ∞".encode(), b"", b"x"]
INPUTS: dict[str, dict[str, Any]] = {
    "serving_default": {"x": np.array([[1, 2], [3, 4]], np.float32)},
    "split": {"s": TEXTS},
    "every": {
        "s": TEXTS,
        "d": np.array([1e300, -0.1, np.inf]),
        "i": np.array([2**60 + 1, -(2**60), 0]),
        "h": np.array([1.5, -2.25], np.float32),
    },
    "shaped": {"s": TEXTS, "sizes": np.array([3, 1], np.int32)},
}
"""What the tests ask; `expected.pickle` has what TensorFlow answers."""


def expected(mixed: Mixed) -> dict[str, dict[str, Any]]:
    given = {"x": tf.float32, "s": tf.string, "d": tf.float64, "i": tf.int64, "h": tf.bfloat16}
    answers: dict[str, dict[str, Any]] = {}
    for name, inputs in INPUTS.items():
        call = mixed.dense if name == "serving_default" else getattr(mixed, name)
        outputs = call(**{k: tf.constant(v, given.get(k, tf.int32)) for k, v in inputs.items()})
        answers[name] = {
            alias: (tf.cast(t, tf.float32) if t.dtype == tf.bfloat16 else t).numpy()
            for alias, t in outputs.items()
        }
    return answers


def main(root: Path) -> None:
    mixed = Mixed()
    (root / "expected.pickle").write_bytes(pickle.dumps(expected(mixed)))
    names = ("count", "counted", "split", "every", "large", "wait", "shaped")
    signatures = {name: getattr(mixed, name) for name in names}
    signatures["serving_default"] = mixed.dense
    tf.saved_model.save(mixed, str(root / "mixed" / "1"), signatures=signatures)
    within = KerasWithin()
    within.model(within.rows)
    tf.saved_model.save(within, str(root / "keras" / "1"), signatures=within.scores)
    (root / "keras.pickle").write_bytes(pickle.dumps(within.scores(within.rows)["y"].numpy()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
