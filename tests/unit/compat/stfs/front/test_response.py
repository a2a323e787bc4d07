"""Replies of simple_tensorflow_serving."""

import json
import math

import numpy as np

from ie_serving.compat.stfs.front.post_body import encode
from ie_serving.core.values.tensors import DataType, TensorSpec


def spec(name: str, dtype: DataType) -> TensorSpec:
    return TensorSpec(name, dtype, None, "")


def test_outputs_are_named_without_anything_around_them() -> None:
    outputs = {
        "keys": np.int32([[11], [2]]),
        "softmax": np.float32([[0.25, 0.75], [np.nan, np.inf]]),
        "texts": np.array([b"a", "\u00e9".encode()], object),
        "one": np.float32(0.1),
    }
    dtypes = (DataType.INT32, DataType.FP32, DataType.STRING, DataType.FP32)
    specs = {name: spec(name, dtype) for name, dtype in zip(outputs, dtypes, strict=True)}
    found = json.loads(encode(outputs, specs, "tensorflow"))
    (nan, infinity) = found["softmax"].pop()
    assert math.isnan(nan)
    assert infinity == math.inf
    assert found == {
        "keys": [[11], [2]],
        "softmax": [[0.25, 0.75]],
        "texts": ["a", "\u00e9"],
        "one": 0.1,
    }


def test_pmml_answers_one_record_without_a_list_and_several_with_one() -> None:
    outputs = {"label": np.array([b"a"], object), "probabilities": np.float64([[0.25, 0.75]])}
    specs = {"label": spec("label", DataType.STRING), "probabilities": spec("p", DataType.FP64)}
    one = {"label": "a", "probabilities": [0.25, 0.75]}
    assert json.loads(encode(outputs, specs, "pmml")) == {"result": one}
    scalar = {"label": np.array(b"a", object), "probabilities": outputs["probabilities"]}
    assert json.loads(encode(scalar, specs, "pmml")) == {"result": one}
    twice = {name: np.concatenate([each, each]) for name, each in outputs.items()}
    several = {"label": ["a", "a"], "probabilities": [[0.25, 0.75]] * 2}
    assert json.loads(encode(twice, specs, "pmml")) == {"result": several}


def test_scikit_learn_answers_with_its_three_results() -> None:
    outputs = {"label": np.int64([1]), "probabilities": np.float64([[0.0, 1.0]])}
    specs = {"label": spec("label", DataType.INT64), "probabilities": spec("p", DataType.FP64)}
    assert json.loads(encode(outputs, specs, "scikitlearn")) == {
        "predict": [1],
        "predict_proba": [[0.0, 1.0]],
        "predict_log_proba": [[-math.inf, 0.0]],
    }
