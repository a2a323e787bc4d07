"""What a signature says of its tensors and rows, and why one is left out."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Method, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.interface.draft import Draft
from ie_serving.engines.openvino.interface.tensor_specs import NO_LIMIT
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing, PropertyPair
from ie_serving.engines.savedmodel.host.host_program import HostPlan, HostStep
from ie_serving.wire.protobuf import messages
from tests.tables import named_by
from tests.unit.engines.openvino.models import Shape, load, parameter, result, run, save, unary

# What specs tell of layouts and of sizes that are neither fixed nor open.


def spec(directory: Path, *own: object) -> TensorSpec:
    model = OpenVinoEngine().compile(directory, EngineOptions(own=own))
    try:
        return model.signatures[SERVING_DEFAULT].inputs["x"]
    finally:
        model.close()


def relu(directory: Path, shape: Shape) -> Path:
    return unary(directory, shape, DataType.FP32, op.relu)


def test_a_layout_of_the_configuration_is_the_clients(tmp_path: Path) -> None:
    asked = Preprocessing(layout=PropertyPair("NHWC", "NCHW"))
    assert spec(relu(tmp_path, [1, 3, 4, 5]), asked).layout == "NHWC"


def test_a_layout_of_the_model_is_told(tmp_path: Path) -> None:
    x = parameter("x", [3, 4, 5, 1])
    x.set_layout(ov.Layout("CHWN"))
    save(tmp_path, [result("y", op.relu(x))], [x])
    assert spec(tmp_path).layout == "CHWN"


@pytest.mark.parametrize("shape", [[1, 3, 4, 5], None])
def test_without_a_layout_there_is_none(tmp_path: Path, shape: Shape | None) -> None:
    assert spec(unary(tmp_path, shape, DataType.FP32, op.relu)).layout == ""


def test_ranges_are_told_where_there_are_some(tmp_path: Path) -> None:
    own = OpenVinoOptions(shape=(1, 3, (10, 20), -1))
    found = spec(relu(tmp_path, [1, 3, 16, 16]), own)
    assert found.shape == (1, 3, -1, -1)
    assert found.bounds == ((1, 1), (3, 3), (10, 20), (0, NO_LIMIT))


@pytest.mark.parametrize("shape", [[1, 3, 4, 5], [-1, 3, -1, -1]])
def test_shapes_that_say_it_all_have_no_bounds(tmp_path: Path, shape: Shape) -> None:
    assert spec(relu(tmp_path, shape)).bounds is None


# What `ie_serving check` says of a signature: who computes it, in a sentence that can be read.

STEP = HostStep("StringLength len", lambda *_: [], (), ())
HOST = HostPlan(before=[STEP])


class Parsed:
    examples = ("inputs",)


def identity() -> ov.Model:
    given = op.parameter([1])
    return ov.Model([op.relu(given)], [given])


@named_by(
    "said", ("model", "beside", "host", "said"),
    [
        (False, None, None, "the server: its values are known at load"),
        (False, None, HOST, "the server, which computes StringLength"),
        (False, Parsed, HOST, "the server, which parses Examples and computes StringLength"),
        (True, None, None, "OpenVINO"),
        (True, None, HOST, "OpenVINO; the server computes StringLength"),
        (True, Parsed, None, "OpenVINO; the server parses Examples"),
    ],
)  # fmt: skip
def test_a_signature_says_what_computes_it(model: bool, beside: Any, host: Any, said: str) -> None:
    graph = identity() if model else None
    draft = Draft("len", Method.PREDICT.value, graph, [], [], beside, host=host)
    assert draft.runs_on == said


# A signature that any stage of a load refuses costs no other, and says why it is not served.

REFUSED = {
    "complex": "dtype number 8",
    "sparse": "'s' is no dense tensor",
    "lost": "refers to a node 'nowhere'",
    "serving_default": "SelfAdjointEig",
}
"""Why each is left out, by its name: reading, sorting its tensors, its graph, conversion."""


async def test_a_signature_that_cannot_be_read_rewritten_or_converted_is_left_out(
    odd_exports: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ie_serving")
    model = load(odd_exports / "partly" / "1")
    for name, cause in REFUSED.items():
        assert cause in model.signatures[name].left_out
        assert f"signature left out signature={name} cause=" in caplog.text
    served = {name for name, s in model.signatures.items() if not s.definition}
    assert served == {"good", "other", "declared", "rank_in_graph"}
    answer = await run(model, {"x": np.array([[1, 2]], np.float32)}, "good")
    assert answer["y"].tolist() == [[5.0]]


def test_the_definition_of_one_that_is_left_out_is_that_of_the_file(odd_exports: Path) -> None:
    signatures = load(odd_exports / "partly" / "1").signatures
    listed = messages.SignatureDef.FromString(signatures["sparse"].definition)
    assert listed.inputs["s"].coo_sparse.values_tensor_name == "sparse/values:0"
    assert listed.method_name == "tensorflow/serving/predict"
    assert messages.SignatureDef.FromString(signatures["complex"].definition).inputs["wave"].dtype


async def test_a_signature_that_cannot_be_compiled_is_left_out(odd_exports: Path) -> None:
    model = load(odd_exports / "partly" / "1", shape={"x": (4, 2)})
    assert "shape names no input 'x'" in model.signatures["other"].left_out
    answer = await run(model, {"x": np.ones((4, 2), np.float32)}, "good")
    assert answer["y"].tolist() == [[3.0]] * 4


def test_a_version_without_any_good_signature_fails_with_the_list(odd_exports: Path) -> None:
    with pytest.raises(LoadFailed) as failure:
        load(odd_exports / "hopeless" / "1")
    for name, cause in REFUSED.items():
        assert f"signature {name!r}" in str(failure.value)
        assert cause in str(failure.value)


def test_a_signature_that_tensorflow_adds_itself_is_listed_without_a_cause(
    odd_exports: Path,
) -> None:
    added = load(odd_exports / "text" / "1").signatures["__saved_model_init_op"]
    assert (added.left_out, bool(added.definition)) == ("", True)


async def test_a_saved_model_as_text_is_read(odd_exports: Path) -> None:
    model = load(odd_exports / "text" / "1")
    answer = await run(model, {"x": np.array([[1, 2]], np.float32)})
    assert answer["y"].tolist() == [[5.0]]
    assert not model.signatures["parse"].left_out


def test_text_that_is_no_saved_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pbtxt").write_text("meta_graphs { graph_def: 7 }")
    with pytest.raises(LoadFailed, match=r"saved_model\.pbtxt is not a SavedModel in text form"):
        load(tmp_path)


# Rows stay apart when a model takes other shapes than it was exported with.

WEIGHTS = np.random.default_rng(4).standard_normal((8, 3)).astype(np.float32)


def flattening(directory: Path, shape: Shape, pattern: Sequence[int], special: bool) -> Path:
    """Write y = flat(x) W, for rows of 2 by 4."""
    flat = op.constant(np.array(pattern, np.int64))
    return unary(
        directory,
        shape,
        DataType.FP32,
        lambda x: op.matmul(op.reshape(x, flat, special), op.constant(WEIGHTS), False, False),
    )


def rows_of(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


PATTERNS = pytest.mark.parametrize(
    ("pattern", "special"),
    [
        pytest.param((0, 8), True, id="keeps the first"),
        pytest.param((0, -1), True, id="as ONNX flattens"),
        pytest.param((1, 8), False, id="one row"),
        pytest.param((1, -1), False, id="one row of any size"),
    ],
)


@PATTERNS
async def test_a_larger_image_is_refused_and_not_made_several_rows(
    tmp_path: Path, pattern: tuple[int, int], special: bool
) -> None:
    model = load(
        flattening(tmp_path, [1, 2, 4], pattern, special), shape="auto", inference_precision="f32"
    )
    with pytest.raises(InvalidTensor, match="would make 4 rows of 1"):
        await run(model, {"x": rows_of(1, 4, 8)})
    for batch in (1, 3):
        x = rows_of(batch, 2, 4)
        answer = await run(model, {"x": x})
        np.testing.assert_allclose(answer["y"], x.reshape(batch, 8) @ WEIGHTS, rtol=1e-4, atol=1e-5)


@PATTERNS
def test_a_shape_that_would_mix_rows_fails_the_load(
    tmp_path: Path, pattern: tuple[int, int], special: bool
) -> None:
    flattening(tmp_path, [1, 2, 4], pattern, special)
    with pytest.raises(LoadFailed, match=r"reshaped to x=\(1, 4, 8\): .* would make 4 rows of 1"):
        load(tmp_path, shape=(1, 4, 8))
    assert load(tmp_path, batch_size=4)


async def test_a_model_whose_sizes_are_open_itself_refuses_as_well(tmp_path: Path) -> None:
    model = load(flattening(tmp_path, [-1, -1, -1], (0, 8), True))
    with pytest.raises(InvalidTensor, match=r"would make \[1,8\] of \[1,4,8\], .* 32 numbers"):
        await run(model, {"x": rows_of(1, 4, 8)})
    assert (await run(model, {"x": rows_of(2, 2, 4)}))["y"].shape == (2, 3)


async def test_rows_that_the_model_leaves_open_are_made_as_it_says(tmp_path: Path) -> None:
    """Words of several texts in one list, for example: as many rows as there are."""
    model = load(flattening(tmp_path, [1, 2, 4], (-1, 8), False), shape="auto")
    assert (await run(model, {"x": rows_of(1, 4, 8)}))["y"].shape == (4, 3)
