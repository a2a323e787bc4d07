"""What TensorFlow's process makes of a job; here in the process of the test."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.codes import Code
from ie_serving.core.values.tensors import Array
from ie_serving.engines.process.link import RemoteFault

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("tensorflow is not installed", allow_module_level=True)

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.core.protobuf import meta_graph_pb2

from ie_serving.engines.tensorflow import tensorflow_session as session

X = {"x": ("x:0", "FP32")}
HAS_DEFAULTS = hasattr(meta_graph_pb2.SignatureDef(), "defaults")
"""Whether this TensorFlow's SignatureDef has the field, which is young."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write y = x * keep, with a default for keep, in two signatures."""
    directory = tmp_path_factory.mktemp("session") / "1"
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as made:
        x = v1.placeholder(tf.float32, [None], name="x")
        keep = v1.placeholder_with_default(tf.constant(0.5), [], name="keep")
        y = v1.multiply(x, keep, name="y")
        define = v1.saved_model.predict_signature_def
        own = define({"x": x, "keep": keep}, {"y": y})
        if HAS_DEFAULTS:
            own.defaults["keep"].CopyFrom(tf.make_tensor_proto(0.25))
        builder = v1.saved_model.builder.SavedModelBuilder(str(directory))
        signatures = {"graphs": define({"x": x, "keep": keep}, {"y": y}), "own": own}
        builder.add_meta_graph_and_variables(made, ["serve"], signature_def_map=signatures)
        builder.save()
    return directory


def job(model: Path, signatures: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {"directory": str(model), "tags": ["serve"], "custom_op_paths": [], "threads": 1}
    return {**given, "signatures": signatures, **more}


def wanted(inputs: dict[str, Any], output: str = "y:0") -> dict[str, Any]:
    return {"inputs": inputs, "outputs": {"y": (output, "FP32")}}


def row(*values: float) -> Array:
    return np.array(values, np.float32)


def test_inputs_and_outputs_stand_in_the_order_of_the_job(model: Path) -> None:
    keep_first = {"keep": ("keep:0", "FP32"), **X}
    loaded = session.load(job(model, {"graphs": wanted(keep_first)}))
    (y,) = loaded.run(0, [np.float32(3), row(1, 2)])
    assert (y.dtype, y.tolist()) == (np.float32, [3, 6])


def test_defaults_are_those_of_the_signature_else_of_the_graph(model: Path) -> None:
    inputs = {**X, "keep": ("keep:0", "FP32")}
    loaded = session.load(job(model, {"graphs": wanted(inputs), "own": wanted(inputs)}))
    found = dict(zip(loaded.found["defaults"], map(float, loaded.tensors), strict=True))
    assert found == {("graphs", "keep"): 0.5, ("own", "keep"): 0.25 if HAS_DEFAULTS else 0.5}


def test_a_signature_of_a_tensor_that_the_graph_lacks_costs_no_other(model: Path) -> None:
    signatures = {"own": wanted(X, "no_such:0"), "graphs": wanted(X)}
    loaded = session.load(job(model, signatures))
    assert "no_such" in loaded.found["refused"].pop("own")
    assert not loaded.found["refused"]
    (y,) = loaded.run(1, [row(8)])
    assert y.tolist() == [4]


def test_a_tensor_that_cannot_be_fed_is_the_requests_fault(model: Path) -> None:
    loaded = session.load(job(model, {"graphs": wanted(X)}))
    with pytest.raises(RemoteFault, match="shape") as caught:
        loaded.run(0, [row(1).reshape(1, 1)])
    assert caught.value.code == Code.INVALID_ARGUMENT


def test_a_library_that_is_none_fails_the_job_with_its_name(model: Path, tmp_path: Path) -> None:
    library = tmp_path / "ops.so"
    library.write_text("no library")
    with pytest.raises(RemoteFault, match=r"ops\.so"):
        session.load(job(model, {"graphs": wanted(X)}, custom_op_paths=[str(library)]))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_library_for_another_version_is_told_so(model: Path, tmp_path: Path) -> None:
    """As one does that names functions which this TensorFlow does not have."""
    source, library = tmp_path / "ops.c", tmp_path / "ops.so"
    source.write_text(
        "extern int of_another_version(void);\nint (*used)(void) = of_another_version;"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    told = rf"{library} does not fit TensorFlow {tf.__version__}: it was built against another"
    with pytest.raises(RemoteFault, match=told):
        session.load(job(model, {"graphs": wanted(X)}, custom_op_paths=[str(library)]))


def test_a_keras_model_within_a_module_has_the_variables_of_the_file(tmp_path: Path) -> None:
    """A session restores each under its second name alone, which no signature reads."""
    keras = pytest.importorskip("keras", "3")
    module = tf.Module()
    module.model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(2)]
    )
    x = tf.TensorSpec([None, 2], tf.float32, "x")
    module.serve = tf.function(lambda x: {"y": module.model(x)}, input_signature=[x])
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    declared = session.open_session(job(tmp_path, {}))[1].signature_def["serving_default"]
    wants = {"inputs": {"a": (declared.inputs["x"].name, "FP32")}}
    wants["outputs"] = {"b": (declared.outputs["y"].name, "FP32")}
    loaded = session.load(job(tmp_path, {"serving_default": wants}))
    (y,) = loaded.run(0, [np.array([[1, 2]], np.float32)])
    np.testing.assert_allclose(y, module.model(np.array([[1, 2]], np.float32)), rtol=1e-5)
    with pytest.raises(RemoteFault, match="ndims") as caught:
        loaded.run(0, [row(1)])
    assert caught.value.code == Code.INVALID_ARGUMENT


def test_a_directory_without_a_model_fails_the_job(tmp_path: Path) -> None:
    with pytest.raises(RemoteFault, match="SavedModel"):
        session.load(job(tmp_path, {"graphs": wanted(X)}))
