"""`signatures.json`: what it adds to a model's own signatures, and every fault it can have."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.models.repository.signature_file import with_signature_file
from tests.tables import named_by


def spec(name: str, dtype: DataType, *shape: int) -> TensorSpec:
    return TensorSpec(name, dtype, shape, f"{name}:0")


MODEL = Signature(
    "serving_default",
    {"image": spec("image", DataType.FP32, -1, 64)},
    {
        "probabilities": spec("probabilities", DataType.FP32, -1, 10),
        "names": spec("names", DataType.STRING, -1, 10),
    },
)
KNOWN = {"serving_default": MODEL}


def read(directory: Path, **definition: Any) -> Signature:
    (directory / "labels.txt").write_text("zero\none\n")
    document = {"signatures": {"s": {k: v for k, v in definition.items() if v is not None}}}
    (directory / "signatures.json").write_text(json.dumps(document))
    return with_signature_file(directory, KNOWN)["s"]


def test_without_the_file_the_model_has_only_its_own(tmp_path: Path) -> None:
    assert with_signature_file(tmp_path, KNOWN) == KNOWN


def test_a_signature_of_classify_takes_features_and_labels(tmp_path: Path) -> None:
    signature = read(
        tmp_path,
        method="classify",
        features={"image": "pixels"},
        outputs={"scores": "probabilities"},
        labels="labels.txt",
    )
    assert signature.method == "tensorflow/serving/classify"
    assert signature.inputs == {"inputs": spec("inputs", DataType.STRING, -1)}
    assert {n: (s.dtype, s.shape) for n, s in signature.outputs.items()} == {
        "scores": (DataType.FP32, (-1, 10)),
        "classes": (DataType.STRING, (-1, 10)),
    }
    assert signature.examples is not None
    assert signature.examples.features == {"image": "pixels"}
    assert signature.examples.labels == ("zero", "one")


def test_regress_takes_features_named_as_the_inputs_unless_told_otherwise(tmp_path: Path) -> None:
    signature = read(tmp_path, method="regress", outputs={"outputs": "probabilities"})
    assert signature.examples is not None
    assert signature.examples.features == {"image": "image"}
    assert set(signature.outputs) == {"outputs"}


@named_by(
    "fault",
    ("definition", "fault"),
    [
        ({"method": "predict", "outputs": {}}, "signatures.s.method: expected classify or"),
        ({"method": "classify"}, "signatures.s.outputs: expected an object with scores or classes"),
        (
            {"method": "classify", "outputs": {"scores": "x"}},
            "signatures.s.outputs.scores: the base has names, probabilities",
        ),
        (
            {"method": "classify", "outputs": {"scores": "names"}},
            'signatures.s.outputs.scores: "names" string (-1, 10) is not float',
        ),
        (
            {"method": "regress", "outputs": {"outputs": "probabilities"}, "base": "x"},
            "signatures.s.base: expected one of serving_default",
        ),
        (
            {"method": "regress", "outputs": {"outputs": "probabilities"}, "features": {"x": "y"}},
            "signatures.s.features.x: the base has image",
        ),
        (
            {"method": "classify", "outputs": {"scores": "probabilities"}, "labels": "gone.txt"},
            'there is no file "gone.txt"',
        ),
        (
            {"method": "classify", "outputs": {"scores": "probabilities"}, "labels": "../l"},
            "expected the name of a file beside",
        ),
        (
            {"method": "classify", "outputs": {"classes": "names"}, "labels": "labels.txt"},
            "only for classify without an output for classes",
        ),
        (
            {"method": "regress", "outputs": {"outputs": "probabilities"}, "colour": 1},
            "signatures.s.colour: unknown key",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(
    tmp_path: Path, definition: dict[str, Any], fault: str
) -> None:
    with pytest.raises(LoadFailed) as refused:
        read(tmp_path, **definition)
    assert fault in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"signatures": []}', '{"signatures": {"s": 1}}'])
def test_a_text_that_is_no_signature_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "signatures.json").write_text(text)
    with pytest.raises(LoadFailed, match=r"signatures"):
        with_signature_file(tmp_path, KNOWN)
