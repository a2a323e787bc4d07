"""What each exported model is asked: inputs by alias, for each signature of each model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tests.unit.engines.savedmodel.exports import example, strings
from tests.unit.wire.image.pictures import encoded

Inputs = Mapping[str, Any]
Models = Mapping[str, Mapping[str, Inputs]]
"""Inputs by model and signature."""

_random = np.random.default_rng(11)
ROWS = _random.normal(size=(3, 4)).astype(np.float32)
IMAGES = _random.random((2, 16, 16, 3)).astype(np.float32)
SEQUENCES = _random.normal(size=(2, 5, 8)).astype(np.float32)
IDS = np.array([[3, 1, 4, 0], [5, 0, 0, 0]], np.int32)

NUMBERS = np.array([20, 10, 7], np.int64)

KERAS: Models = {
    "keras_export": {"serving_default": {"x": ROWS}, "serve": {"x": ROWS}},
    "keras_save": {"serving_default": {"inputs": ROWS}},
    "keras_several": {"serving_default": {"a": ROWS, "b": ROWS[:, :2]}},
    "keras_archive": {"serve": {"x": ROWS}, "serving_default": {"x": ROWS}, "logits": {"x": ROWS}},
    "keras_image": {"serving_default": {"image": IMAGES}},
    "keras_resized": {"serving_default": {"image": (IMAGES * 255).astype(np.uint8)}},
    "keras_recurrent": {"serving_default": {"ids": IDS}},
    "keras_attention": {"serving_default": {"x": SEQUENCES}},
    "keras_mixed": {"serving_default": {"x": ROWS}},
    "keras_buckets": {"serving_default": {"x": ROWS}},
    "keras_vocabulary": {"serving_default": {"word": strings(b"b", b"z", b"a"), "n": NUMBERS}},
    "keras_text": {"serving_default": {"text": strings(b"To be, or NOT to be", b"unknown", b"")}},
}

PICTURES = [encoded((image * 255).astype(np.uint8), "JPEG", quality=95) for image in IMAGES]
"""Not by TensorFlow, which would start its threads when this is imported."""

PILLOW: Models = {
    "module_jpeg": {
        "serving_default": {"bytes": strings(*PICTURES)},
        "one": {"image": PICTURES[0]},
    },
    "first_inception": {
        "serving_default": {"image_bytes": strings(*PICTURES)},
        "predict_images": {
            "images": strings(*(example(**{"image/encoded": [data]}) for data in PICTURES))
        },
    },
}
"""Served where Pillow is installed."""

MODULES: Models = {
    "module_several": {
        "serving_default": {"x": ROWS},
        "scaled": {"x": ROWS, "scale": np.float32(3)},
        "several": {"p": ROWS, "n": IDS, "flag": np.array([True, False])},
        "scalar": {"x": np.float32(1.5)},
        "wide": {"x": ROWS.astype(np.float64), "n": np.array([1, -2, 3], np.int64)},
        "bytes": {"x": np.array([[0, 128, 255]], np.uint8)},
    },
    "module_loops": {
        "serving_default": {"x": SEQUENCES},
        "steps": {"x": np.float32(0.5), "n": np.int32(5)},
        "branch": {"x": ROWS, "flag": np.bool_(True)},
    },
    "module_sparse": {
        "serving_default": {"ids": IDS},
        "weighted": {"ids": IDS, "weights": np.float32([[1, 2, 0.5, 0], [3, 0, 0, 0]])},
        "safe": {"ids": IDS},
        "ragged": {"ids": IDS},
    },
    "module_shapes": {
        "serving_default": {"x": SEQUENCES},
        "top": {"x": ROWS},
        "scattered": {"x": ROWS, "n": np.array([2, 0, 2], np.int32)},
        "any_rank": {"x": SEQUENCES},
    },
    "module_strings": {
        "serving_default": {"words": strings(b"b", b"nowhere", b"a")},
        "labels": {"x": ROWS},
        "heads": {"x": ROWS},
        "text": {"s": strings(b"A b", b"c")},
    },
}


def _sequence(steps: list[list[float]], age: float | None = None) -> bytes:
    made = tf.train.SequenceExample()
    if age is not None:
        made.context.feature["age"].float_list.value.append(age)
    for step in steps:
        made.feature_lists.feature_list["steps"].feature.add().float_list.value.extend(step)
    return bytes(made.SerializeToString())


PEOPLE = strings(
    example(
        age=[31.0],
        income=[1.0, 2.0],
        ids=[1, 4],
        weights=[0.5, 2.0],
        ids_2=[3, 5],
        age_2=[20.0],
        job=[b"smith"],
        tags=[b"x", b"y"],
    ),
    example(
        age=[18.0], ids=[2], weights=[1.5], ids_2=[0], age_2=[70.0], fare=[7.25, 3.0], job=[b"?"]
    ),
    example(age=[64.5], income=[0.0, 4.0], age_2=[30.0], fare=[71.0], tags=[b"y"]),
)
ONE = PEOPLE[0]

EXAMPLES: Models = {
    "estimator_linear": {
        "serving_default": {"inputs": PEOPLE},
        "predict": {"examples": PEOPLE},
        "regression": {"inputs": PEOPLE},
    },
    "estimator_columns": {
        "serving_default": {"inputs": PEOPLE},
        "predict": {"examples": PEOPLE},
        "regression": {"inputs": PEOPLE},
    },
    "estimator_vocabulary": {
        "serving_default": {"inputs": PEOPLE},
        "predict": {"examples": PEOPLE},
        "classes": {"inputs": PEOPLE},
    },
    "tfx": {
        "serving_default": {"examples": PEOPLE},
        "transform_features": {"examples": PEOPLE},
        "vocabulary": {"examples": PEOPLE},
    },
    "ragged_features": {
        "serving_default": {"examples": PEOPLE},
        "single": {"example": ONE},
        "sequences": {"examples": strings(_sequence([[1, 2], [3, 4]], 2.0), _sequence([[5, 6]]))},
    },
}

FIRST_GENERATION: Models = {
    "simple_save": {"serving_default": {"x": ROWS, "keep_prob": np.float32(0.5)}},
    "simple_table": {"serving_default": {"x": ROWS, "keep_prob": np.float32(1)}},
    "first_loops": {
        "serving_default": {"x": ROWS},
        "branch": {"x": ROWS, "is_training": np.bool_(True)},
    },
    "first_rows": {
        "serving_default": {"words": strings(b"a", b"bc"), "times": np.int32(3)},
        "examples": {"e": PEOPLE},
    },
    "first_branches": {
        "serving_default": {"flag": np.bool_(False), "words": strings(b"a", b"bc"), "x": ROWS},
    },
    "first_recurrent": {
        "serving_default": {"x": SEQUENCES, "steps": np.array([3, 5], np.int32)},
        "words": {
            "x": SEQUENCES,
            "steps": np.array([5, 2], np.int32),
            "words": strings(b"a", b"bc"),
        },
    },
}

TF_KERAS: Models = {
    "tf_keras_save": {"serving_default": {"x": ROWS[:2], "ids": IDS}},
    "tf_keras_export": {"serving_default": {"x": ROWS[:2], "ids": IDS}},
    "tf_keras_saved_model": {"serving_default": {"logits_input": ROWS}},
}
"""Made where tf_keras is installed."""

ALL: Models = {**KERAS, **MODULES, **EXAMPLES, **FIRST_GENERATION}
