"""A signature that any stage of a load refuses costs no other, and says why it is not served."""

import logging
from pathlib import Path

import numpy as np
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.wire.protobuf import messages
from tests.unit.engines.openvino.models import load, run

REFUSED = {
    "complex": "dtype number 8",
    "sparse": "'s' is no dense tensor",
    "lost": "refers to a node 'nowhere'",
    "serving_default": "SelfAdjointEig",
}
"""Why each is left out, by its name: reading, sorting its tensors, its graph, conversion."""


async def test_what_cannot_be_read_rewritten_or_converted_is_left_out(
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


async def test_what_cannot_be_compiled_is_left_out(odd_exports: Path) -> None:
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


def test_what_tensorflow_adds_itself_is_listed_without_a_cause(odd_exports: Path) -> None:
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
