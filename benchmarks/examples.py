"""Measure how long serialized Examples take to parse here, beside TensorFlow's own operation.

Both get the same bytes on one thread in one process, in alternating rounds; the shortest of the
rounds counts. Needs tensorflow, so it runs in the environment of the tests.
"""

import os
import random
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from benchmarks.report import table
from ie_serving.core.values.tensors import DataType
from ie_serving.wire.examples.example_spec import DenseFeature, ExampleSpec
from ie_serving.wire.examples.serialized_examples import parse

FLOATS, INTEGERS, STRINGS = 10, 6, 4
"""Features of each kind in an Example, twenty in all; one float feature has eight values."""
COUNTS = (1, 16, 100, 1_000, 10_000)
ROUND_S = 0.4
ROUNDS = 5
LONG = "float_long"


def main() -> None:
    """Measure and print."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rows = [_compare(count) for count in COUNTS]
    print(table(["Examples of 20 features", "here ms", "TensorFlow ms", "ratio"], rows))


def _compare(count: int) -> list[str]:
    serialized = _examples(count)
    theirs = _tensorflow(serialized)
    spec = _spec()
    own_s, their_s = _alternate(lambda: parse(spec, serialized), theirs)
    return [f"{count:,}", f"{own_s * 1e3:.3f}", f"{their_s * 1e3:.3f}", f"{own_s / their_s:.2f}"]


def _examples(count: int) -> list[bytes]:
    numbers = random.Random(count)
    made = []
    for _ in range(count):
        example = tf.train.Example()
        feature = example.features.feature
        feature[LONG].float_list.value.extend(numbers.random() for _ in range(8))
        for i in range(1, FLOATS):
            feature[f"float_{i}"].float_list.value.append(numbers.random())
        for i in range(INTEGERS):
            feature[f"integer_{i}"].int64_list.value.append(numbers.randrange(100_000))
        for i in range(STRINGS):
            feature[f"text_{i}"].bytes_list.value.append(b"word %d" % numbers.randrange(1000))
        made.append(example.SerializeToString())
    return made


def _sizes() -> dict[str, tuple[DataType, tuple[int, ...]]]:
    return {
        LONG: (DataType.FP32, (8,)),
        **{f"float_{i}": (DataType.FP32, (1,)) for i in range(1, FLOATS)},
        **{f"integer_{i}": (DataType.INT64, (1,)) for i in range(INTEGERS)},
        **{f"text_{i}": (DataType.STRING, (1,)) for i in range(STRINGS)},
    }


def _spec() -> ExampleSpec:
    return ExampleSpec(
        dense=[
            DenseFeature(key, dtype, shape, None, key) for key, (dtype, shape) in _sizes().items()
        ]
    )


_KINDS = {DataType.FP32: tf.float32, DataType.INT64: tf.int64, DataType.STRING: tf.string}


def _tensorflow(serialized: Sequence[bytes]) -> Callable[[], object]:
    features = {
        key: tf.io.FixedLenFeature(shape, _KINDS[dtype]) for key, (dtype, shape) in _sizes().items()
    }
    given = tf.constant(np.array(serialized, np.object_))
    compute = tf.function(lambda texts: tf.io.parse_example(texts, features))
    return lambda: compute(given)


def _alternate(*calls: Callable[[], object]) -> list[float]:
    """Give the shortest seconds of one call of each, from rounds that take turns."""
    for call in calls:
        call()
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for i, call in enumerate(calls):
            best[i] = min(best[i], _shortest(call))
    return best


def _shortest(call: Callable[[], object]) -> float:
    best, until = float("inf"), time.perf_counter() + ROUND_S
    while time.perf_counter() < until:
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


if __name__ == "__main__":
    main()
