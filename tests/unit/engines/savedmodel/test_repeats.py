"""Signatures that compute the same are converted and compiled once; others never share."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import copies
from ie_serving.engines.openvino.compiling import openvino_engine
from ie_serving.engines.savedmodel.file import declared, read_graph
from ie_serving.engines.savedmodel.repeats import repeats
from tests.tables import named_by
from tests.unit.engines.openvino.models import load
from tests.unit.engines.savedmodel.exports import first_generation

ROWS = [tf.TensorSpec([None, 2], tf.float32, name="x")]
X = np.array([[1, -2], [3, 4]], np.float32)


class Net(tf.Module):  # type: ignore[misc]
    def __init__(self, weight: float = 2.0) -> None:
        super().__init__()
        self.weight = tf.Variable(weight)

    @tf.function(input_signature=ROWS)
    def scaled(self, x: Any) -> dict[str, Any]:
        return {"y": tf.nn.relu(x) * self.weight}

    @tf.function(input_signature=ROWS)
    def raised(self, x: Any) -> dict[str, Any]:
        return {"y": tf.nn.relu(x) + self.weight}

    @tf.function(input_signature=[tf.TensorSpec([3, 2], tf.float32, name="x")])
    def of_three(self, x: Any) -> dict[str, Any]:
        return {"y": tf.nn.relu(x) * self.weight}


def saved(directory: Path, module: tf.Module, signatures: Mapping[str, Any]) -> Path:
    tf.saved_model.save(module, str(directory), signatures=signatures)
    return directory


def found(directory: Path) -> dict[str, str]:
    meta_graph = read_graph(directory)
    return repeats(meta_graph, declared(meta_graph))


def one_function(module: Any) -> Mapping[str, Any]:
    return {"serve": module.scaled, "serving_default": module.scaled, "other": module.raised}


def other_sizes(module: Any) -> Mapping[str, Any]:
    return {"serve": module.scaled, "serving_default": module.of_three}


def other_variables(module: Any) -> Mapping[str, Any]:
    module.second = Net(5.0)
    return {"serve": module.scaled, "serving_default": module.second.scaled}


def other_names(module: Any) -> Mapping[str, Any]:
    spec = tf.TensorSpec([None, 2], tf.float32, name="z")
    renamed = tf.function(lambda z: module.scaled(x=z), input_signature=[spec])
    module.renamed = renamed
    return {"serve": module.scaled, "serving_default": renamed}


@named_by(
    "made",
    ("made", "expected"),
    [
        (one_function, {"serving_default": "serve"}),
        (other_sizes, {}),
        (other_variables, {}),
        (other_names, {}),
    ],
)
def test_signatures_that_compute_the_same_repeat_one_another(
    tmp_path: Path, made: Callable[[Any], Mapping[str, Any]], expected: dict[str, str]
) -> None:
    module = Net()
    assert found(saved(tmp_path, module, made(module))) == expected


def test_of_the_first_generation_signatures_of_the_same_tensors_repeat(tmp_path: Path) -> None:
    def graph() -> Mapping[str, Any]:
        x, z = (v1.placeholder(tf.float32, [None, 2], name=name) for name in "xz")
        y, cast = tf.identity(x * 2.0, name="y"), tf.cast(x, tf.float64)
        signature = v1.saved_model.predict_signature_def
        return {
            "a": signature({"x": x}, {"y": y}),
            "b": signature({"x": x}, {"y": y}),
            "c": signature({"x": x}, {"y": tf.identity(x * 2.0)}),
            "d": signature({"x": x}, {"y": tf.cast(cast, tf.float32)}),
            "e": signature({"x": z}, {"y": z * 2.0}),
            "f": signature({"z": x}, {"y": y}),
        }

    first_generation(tmp_path / "1", graph)
    assert found(tmp_path / "1") == {"b": "a"}


def test_defaults_that_a_signature_declares_are_its_own(tmp_path: Path) -> None:
    module = Net()
    saved(tmp_path, module, {"a": module.scaled, "b": module.scaled})
    meta_graph = read_graph(tmp_path)
    assert repeats(meta_graph, declared(meta_graph)) == {"b": "a"}
    default = tf.make_tensor_proto([[1.0, 2.0]]).SerializeToString()
    meta_graph.signature_def["b"].defaults["x"].MergeFromString(default)
    assert repeats(meta_graph, declared(meta_graph)) == {}


@pytest.mark.parametrize(
    ("tensor", "first", "second"),
    [("serve_x:0", "z", "x"), ("serving_default_x:0", "x", "z"), ("x", "z", "z")],
)
def test_a_tensor_that_is_renamed_in_one_signature_keeps_its_name_in_the_other(
    tmp_path: Path, tensor: str, first: str, second: str
) -> None:
    module = Net()
    saved(tmp_path, module, one_function(module))
    (tmp_path / "mapping_config.json").write_text(json.dumps({"inputs": {tensor: "z"}}))
    model = load(tmp_path)
    found = [list(model.signatures[name].inputs) for name in ("serve", "serving_default")]
    assert found == [[first], [second]]
    model.close()


@pytest.mark.parametrize("tensor", ["x", "serve_x:0", "serving_default_x:0"])
def test_options_may_name_the_tensors_of_each_signature(tmp_path: Path, tensor: str) -> None:
    module = Net()
    model = load(saved(tmp_path, module, one_function(module)), shape={tensor: (3, 2)})
    for name in ("serve", "serving_default"):
        assert model.signatures[name].inputs["x"].shape == (3, 2)
    model.close()


async def test_a_repeat_answers_under_its_own_name(tmp_path: Path) -> None:
    module = Net()
    model = load(saved(tmp_path, module, one_function(module)))
    expected = {"serve": [[2, 0], [6, 8]], "serving_default": [[2, 0], [6, 8]]}
    for name, rows in {**expected, "other": [[3, 2], [5, 6]]}.items():
        signature = model.signatures[name]
        assert (await model.infer(signature, {"x": X}, copies))["y"].tolist() == rows
        assert (signature.name, signature.runs_on) == (name, "OpenVINO")
        assert signature.as_sent
    tensors = [model.signatures[name].inputs["x"].tensor for name in expected]
    assert tensors == ["serve_x:0", "serving_default_x:0"]
    model.close()


def test_of_signatures_that_cannot_be_converted_each_has_its_cause(tmp_path: Path) -> None:
    class Areas(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None, 2, 2], tf.float32, name="x")])
        def eigen(self, x: Any) -> dict[str, Any]:
            return {"y": tf.linalg.eigh(x)[0]}

    module = Areas()
    with pytest.raises(LoadFailed) as failure:
        load(saved(tmp_path, module, {"a": module.eigen, "b": module.eigen}))
    for name in ("'a'", "'b'"):
        assert f"signature {name} cannot be" in str(failure.value)


def test_the_cause_of_a_signature_that_cannot_be_compiled_is_that_of_its_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise LoadFailed("no memory")

    monkeypatch.setattr(openvino_engine, "program_of", refused)
    module = Net()
    with pytest.raises(LoadFailed) as failure:
        load(saved(tmp_path, module, {"a": module.scaled, "b": module.scaled}))
    for name in ("'a'", "'b'"):
        assert f"signature {name} cannot be compiled: no memory" in str(failure.value)
