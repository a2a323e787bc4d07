"""Writes TFLite models that OpenVINO answers otherwise than LiteRT. Run as a program.

nearest   a picture by its nearest pixels, with centres at halves: all values
scatter   rows at places that a request gives: where these repeat, TensorFlow adds the rows up
most      the greatest of a row: with NaN
quantized as nearest, of 8 bits
sum       alike
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

PICTURE = [tf.TensorSpec([None, 4, 4, 1], name="x")]
ROWS = [tf.TensorSpec([3, 1], tf.int32, name="i"), tf.TensorSpec([3, 2], name="x")]
ROW = [tf.TensorSpec([None, 3], name="x")]


def nearest(x: Any) -> Any:
    return tf.raw_ops.ResizeNearestNeighbor(images=x, size=[3, 6], half_pixel_centers=True)


def samples() -> Iterator[list[Any]]:
    for each in np.random.default_rng(1).standard_normal((8, 1, 4, 4, 1)):
        yield [each.astype(np.float32)]


MODELS: dict[str, tuple[Callable[..., Any], Sequence[tf.TensorSpec]]] = {
    "nearest": (nearest, PICTURE),
    "quantized": (nearest, PICTURE),
    "scatter": (lambda i, x: tf.scatter_nd(i, x, [6, 2]), ROWS),
    "most": (lambda x: tf.reduce_max(x, 1), ROW),
    "sum": (lambda x: tf.reduce_sum(x, 1), ROW),
}


def main(root: Path) -> None:
    for name, (computes, specs) in MODELS.items():
        module = tf.Module()
        module.f = tf.function(lambda *given, f=computes: {"y": f(*given)}, input_signature=specs)
        concrete = module.f.get_concrete_function()
        converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], module)
        if name == "quantized":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = samples
        directory = root / name / "1"
        directory.mkdir(parents=True)
        (directory / "model.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
