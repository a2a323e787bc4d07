"""TFLite files are served under the signatures that they declare, wherever these stand."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.openvino.reading.lite_signatures import signatures_of
from tests.unit.engines.openvino.models import load, run

X = np.array([[1, 2], [3, -4]], np.float32)
Y = [[5.0], [-5.0]]


async def test_each_signature_of_the_converter_computes_its_own(odd_exports: Path) -> None:
    model = load(odd_exports / "lite" / "1", prefer_tflite_model=True, inference_precision="f32")
    assert set(model.signatures) == {"serving_default", "two"}
    x = model.signatures["serving_default"].inputs["x"]
    assert (x.dtype, x.shape, x.tensor) == (DataType.FP32, (-1, 2), "serving_default_x:0")
    assert (await run(model, {"x": X}))["y"].tolist() == Y
    answer = await run(model, {"a": X, "b": np.array([2], np.float32)}, "two")
    assert answer["sum"].tolist() == (X + 2).tolist()
    assert answer["product"].tolist() == (X * 2).tolist()


async def test_a_saved_model_beside_it_is_served_unless_it_is_preferred(odd_exports: Path) -> None:
    model = load(odd_exports / "lite" / "1", inference_precision="f32")
    assert (await run(model, {"x": X}))["y"].tolist() == [[50.0], [-50.0]]


async def test_without_signatures_the_tensors_have_their_own_names(odd_exports: Path) -> None:
    model = load(odd_exports / "plain" / "1", inference_precision="f32")
    assert list(model.signatures) == ["serving_default"]
    answer = await run(model, {"serving_default_x": X})
    assert answer["StatefulPartitionedCall"].tolist() == Y


async def test_outputs_whose_names_differ_in_the_port_alone_are_all_served(
    odd_exports: Path,
) -> None:
    model = load(odd_exports / "plain_two" / "1", inference_precision="f32")
    names = ("PartitionedCall", "PartitionedCall:1")
    inputs = {"two_a": X, "two_b": np.array([2], np.float32)}
    answer = await run(model, inputs)
    assert {name: answer[name].tolist() for name in answer} == dict(
        zip(names, [(X * 2).tolist(), (X + 2).tolist()], strict=True)
    )


async def test_the_metadata_of_the_file_counts_first_and_a_bad_one_costs_no_other(
    odd_exports: Path,
) -> None:
    model = load(odd_exports / "defs" / "1", inference_precision="f32")
    assert model.signatures["serving_default"].method == "tensorflow/serving/regress"
    assert "no tensor 'nowhere:0' among its outputs" in model.signatures["bad"].left_out
    assert (await run(model, {"in": X}))["out"].tolist() == Y


def test_an_operation_beside_one_of_mediapipe_is_named_as_well(lite_exports: Path) -> None:
    with pytest.raises(
        LoadFailed, match="cannot be converted: OpenVINO has no BITWISE_XOR: export"
    ):
        load(lite_exports / "beside" / "1")


def test_a_file_that_is_no_tflite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"no model at all")
    with pytest.raises(LoadFailed, match=r"model\.tflite is not a TFLite model"):
        load(tmp_path)


@pytest.fixture(scope="module")
def file(odd_exports: Path) -> bytes:
    return (odd_exports / "defs" / "1" / "model.tflite").read_bytes()


@given(st.data())
def test_damaged_files_are_read_or_refused(file: bytes, data: st.DataObject) -> None:
    damaged = bytearray(file)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(8, len(file) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(8, len(file)))
    try:
        assert signatures_of(bytes(damaged[:cut]), "f")
    except LoadFailed as failure:
        assert str(failure).startswith("f")
