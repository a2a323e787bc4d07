"""Which directories are complete, and which model of one is read."""

from pathlib import Path

import numpy as np
import onnx
import openvino.opset15 as op
import pytest
from onnx import helper
from onnx.external_data_helper import set_external_data

from ie_serving.core.values.errors import LoadFailed, NoModel
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading.formats import missing, model_file
from ie_serving.engines.openvino.reading.read import read
from tests.onnx_models import save_onnx
from tests.unit.engines.openvino.models import unary

INDEX = "variables/variables.index"
SHARDS = [f"variables/variables.data-0000{i}-of-00002" for i in range(2)]


@pytest.mark.parametrize(
    ("files", "text"),
    [
        pytest.param(["m.xml", "m.bin"], None, id="IR"),
        pytest.param(
            ["m.xml", "m.bin", "mapping_config.json", "labels.txt"], None, id="and others"
        ),
        pytest.param(["m.xml"], "m.bin is missing beside m.xml", id="IR without weights"),
        pytest.param(["m.bin"], "m.xml is missing beside m.bin", id="weights without IR"),
        pytest.param(["m.xml", "n.bin"], "m.bin is missing", id="weights of another"),
        pytest.param(["a/m.xml", "a/m.bin"], "the model is missing", id="a directory deeper"),
        pytest.param(["saved_model.pb"], None, id="SavedModel without variables"),
        pytest.param(["saved_model.pb", INDEX, *SHARDS], None, id="SavedModel"),
        pytest.param(["saved_model.pb", *SHARDS], f"{INDEX} is missing", id="no index"),
        pytest.param(["saved_model.pb", INDEX], "shard 0", id="no shard"),
        pytest.param(["saved_model.pb", INDEX, SHARDS[0]], "shard 1", id="one shard of two"),
        pytest.param(["m.onnx"], None, id="ONNX"),
        pytest.param(["saved_model.pbtxt"], None, id="SavedModel as text"),
        pytest.param(["saved_model.pbtxt", INDEX], "shard 0", id="as text, no shard"),
        pytest.param(["model.tflite"], None, id="TFLite"),
        pytest.param(["m.pdmodel", "m.pdiparams"], None, id="PaddlePaddle"),
        pytest.param(["m.pdmodel"], "m.pdiparams is missing beside m.pdmodel", id="no weights"),
        pytest.param(["m.pdiparams"], "m.pdmodel is missing beside m.pdiparams", id="no graph"),
        pytest.param(["frozen.pb"], None, id="a frozen graph"),
        pytest.param(["fingerprint.pb"], "the model is missing", id="on its way"),
        pytest.param(["keras_metadata.pb", INDEX], "saved_model.pb is missing", id="variables"),
        pytest.param(["m.pt2"], "m.pt2 can be read by PyTorch alone", id="PyTorch"),
        pytest.param(["notes.txt"], "the model is missing", id="nothing known"),
    ],
)
def test_the_file_that_a_directory_lacks_is_named(files: list[str], text: str | None) -> None:
    found = missing(files)
    assert found == text if text is None else text in (found or "")


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["m.xml", "m.bin"], "m.xml"),
        (["m.xml", "m.bin", "m.onnx"], "m.xml"),
        (["saved_model.pb", "m.onnx"], "saved_model.pb"),
        (["saved_model.pb", "saved_model.pbtxt", "model.tflite"], "saved_model.pb"),
        (["saved_model.pbtxt", "m.onnx"], "saved_model.pbtxt"),
        (["m.onnx", "model.tflite"], "m.onnx"),
        (["model.tflite"], "model.tflite"),
        (["m.pdmodel", "m.pdiparams", "frozen.pb"], "m.pdmodel"),
        (["frozen.pb", "fingerprint.pb"], "frozen.pb"),
        (["model.tflite", "frozen.pb"], "model.tflite"),
        (["m.onnx"], "m.onnx"),
    ],
    ids=str,
)
def test_the_model_that_is_read(tmp_path: Path, files: list[str], chosen: str) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert model_file(tmp_path).name == chosen


def test_the_tflite_is_read_where_it_is_preferred_and_there(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").touch()
    assert model_file(tmp_path, prefer_tflite=True).name == "saved_model.pb"
    (tmp_path / "model.tflite").touch()
    assert model_file(tmp_path, prefer_tflite=True).name == "model.tflite"


def test_two_of_one_format_are_refused(tmp_path: Path) -> None:
    for name in ("b.onnx", "a.onnx"):
        (tmp_path / name).touch()
    with pytest.raises(LoadFailed, match=r"a\.onnx, b\.onnx; keep one"):
        model_file(tmp_path)


@pytest.mark.parametrize(
    ("files", "warned"),
    [
        pytest.param(["m.xml", "m.bin", "saved_model.pb"], True, id="IR beside a SavedModel"),
        pytest.param(["m.onnx", "m.tflite"], True, id="ONNX beside TFLite"),
        pytest.param(
            ["saved_model.pb", "saved_model.pbtxt", "fingerprint.pb"],
            False,
            id="two forms of a SavedModel",
        ),
        pytest.param(["m.xml", "m.bin", "labels.txt"], False, id="IR beside its labels"),
    ],
)
def test_models_of_several_formats_are_warned_of(
    tmp_path: Path, files: list[str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    for name in files:
        (tmp_path / name).touch()
    used = model_file(tmp_path)
    assert used.name == files[0]
    said = f"version holds several models path={tmp_path} used={files[0]} ignored={files[-1]}"
    assert (said in caplog.text) == warned


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "it has 0 bytes"), (b"random bytes\xff\x00" * 9, "its 126 bytes cannot be parsed")],
)
def test_a_file_that_is_no_onnx_model_is_named_as_such(
    tmp_path: Path, content: bytes, why: str
) -> None:
    """Without the list of front ends that OpenVINO gives."""
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(LoadFailed) as failure:
        read(tmp_path, OpenVinoOptions())
    assert str(failure.value) == f"model.onnx is no ONNX model, {why}: upload it again"


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        pytest.param(
            "m.onnx",
            POINTER,
            "m.onnx is a pointer of Git LFS and not the model: git lfs pull",
            id="a pointer for ONNX",
        ),
        pytest.param(
            "m.onnx",
            b"\n<!DOCTYPE html><html>",
            "m.onnx is a page of HTML and not the model, as of a download that was refused:"
            " upload the model",
            id="a page for ONNX",
        ),
        pytest.param(
            "saved_model.pb",
            POINTER,
            "saved_model.pb is a pointer of Git LFS and not the model: git lfs pull",
            id="a pointer for a SavedModel",
        ),
        pytest.param(
            "saved_model.pb",
            b"",
            "saved_model.pb holds no graph: upload it again",
            id="an empty SavedModel",
        ),
    ],
)
def test_a_file_in_place_of_a_model_is_named(
    tmp_path: Path, name: str, content: bytes, text: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NoModel) as failure:
        read(tmp_path, OpenVinoOptions())
    assert str(failure.value) == text


UPLOAD = "missing, cut short, of another model or outside of the version's directory: upload both"


def test_weights_that_are_cut_short_are_named(tmp_path: Path) -> None:
    unary(tmp_path, [4], DataType.FP32, lambda x: op.add(x, np.arange(4, dtype=np.float32)))
    weights = tmp_path / "model.bin"
    weights.write_bytes(weights.read_bytes()[:5])
    with pytest.raises(LoadFailed) as failure:
        read(tmp_path, OpenVinoOptions())
    begin = f"model.xml cannot be read: its file of weights (bin) is {UPLOAD} again (OpenVINO: "
    assert str(failure.value).startswith(begin)


@pytest.mark.parametrize(
    ("where", "length", "size", "named"),
    [
        pytest.param("w.data", 16, None, "w.data", id="missing"),
        pytest.param("w.data", None, None, "w.data", id="missing, no length"),
        pytest.param("w.data", 16, 5, "w.data", id="short"),
        pytest.param("w.data", None, 5, "w", id="short, no length"),
        pytest.param("../w.data", None, 16, "../w.data", id="elsewhere"),
    ],
)
def test_weights_beside_a_model_of_onnx_are_named(
    tmp_path: Path, where: str, length: int | None, size: int | None, named: str
) -> None:
    version = tmp_path / "1"
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    file = save_onnx(version / "m.onnx", nodes, {"x": [4]}, {"y": [4]}, w=np.zeros(4, np.float32))
    model = onnx.load(file)
    set_external_data(model.graph.initializer[0], where, length=length)
    model.graph.initializer[0].ClearField("raw_data")
    file.write_bytes(model.SerializeToString())
    if size is not None:
        (version / where).write_bytes(bytes(size))
    with pytest.raises(LoadFailed) as failure:
        read(version, OpenVinoOptions())
    begin = f"m.onnx cannot be read: its file of weights ({named}) is {UPLOAD} again (OpenVINO: "
    assert str(failure.value).startswith(begin)
