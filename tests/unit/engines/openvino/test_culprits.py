"""A refusal names the operation of the user's graph that is at fault, and the way out."""

import re
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import helper

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.error_texts import Operation, among, in_words, load_failures
from tests.exporting import export
from tests.onnx_models import save_onnx
from tests.tables import named_by
from tests.unit.engines.openvino.models import load

OWN = "(OpenVINO: "
"""How a text of OpenVINO begins in one of ours."""
WAYS_OUT = re.compile(r"export|make them constants|openvino\.shape")


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = Path(__file__).with_name("refused_exports.py")
    return export(program, tmp_path_factory.mktemp("refused"))


@named_by(
    "name",
    ("name", "begins"),
    [
        (
            "by_area",
            "ResizeArea 'map/while/resize/ResizeArea' stands in StatelessWhile 'map/while', which",
        ),
        ("in_branch", "AdjustHue 'map/while/cond/adjust_hue/AdjustHue' stands in StatelessIf"),
        # It was served, and each answer was empty.
        ("encoded", "EncodeJpeg 'map/while/EncodeJpeg' stands in StatelessWhile 'map/while'"),
        (
            "mapped",
            'OpenVINO has no SelfAdjointEigV2 ("map/while/SelfAdjointEigV2", in a function of'
            ' StatelessWhile "map/while"): export',
        ),
        ("repeated", 'OpenVINO has no Svd ("while/Svd", in a function of StatelessWhile "while")'),
        ("chosen", 'OpenVINO has no Qr ("cond/Qr", in a function of StatelessIf "cond"): export'),
        ("spectrum", 'Cast "Cast": OpenVINO does not take it in this form: export'),
        ("along", 'ArgMax "best": OpenVINO needs its axes, sizes or weights when'),
        (
            "from_jax",
            'OpenVINO has no XlaCallModule ("XlaCallModule"): export the model without XLA, from'
            " JAX by jax2tf.convert(",
        ),
        ("from_message", "DecodeProtoV2 'DecodeProtoV2' computes with strings"),
        ("first_mapped", 'OpenVINO has no Svd ("map/while/Svd"): export'),
        # It was served, and shorter elements were repeated.
        ("first_joined", "TensorArrayConcatV3 'TensorArrayConcatV3' joins elements that may"),
    ],
)
def test_an_operation_that_nothing_runs_is_named_wherever_it_stands(
    refused: Path, name: str, begins: str
) -> None:
    with pytest.raises(LoadFailed) as raised:
        load(refused / name)
    cause = str(raised.value).partition(" signature 'serving_default' cannot be converted: ")[2]
    assert cause.startswith(begins)
    assert WAYS_OUT.search(cause.partition(OWN)[0]) or "give tf.TensorArray an" in cause


def saved(directory: Path, nodes: Sequence[onnx.NodeProto], *shapes: Sequence[str]) -> Path:
    inputs = dict(zip("xw", shapes, strict=False))
    return save_onnx(directory / "model.onnx", nodes, inputs, {"y": None}, opset=21).parent


@pytest.mark.parametrize(
    ("node", "shapes", "begins"),
    [
        (
            helper.make_node("Conv", ["r", "w"], ["y"], name="first"),
            ["abcd", "efgh"],
            'the model cannot be compiled for CPU: Conv "first": OpenVINO needs its axes, sizes or'
            " weights when the model is loaded: make them constants of the model, or export it with"
            " fixed sizes, or set openvino.shape (OpenVINO: ",
        ),
        (
            helper.make_node("Det", ["r"], ["y"]),
            ["ab"],
            'model.onnx cannot be read: OpenVINO has no Det ("y"): export',
        ),
    ],
)
def test_an_operator_of_onnx_is_named_by_its_name_or_output(
    tmp_path: Path, node: onnx.NodeProto, shapes: Sequence[str], begins: str
) -> None:
    relu = helper.make_node("Relu", ["x"], ["r"])
    with pytest.raises(LoadFailed) as raised:
        load(saved(tmp_path, [relu, node], *shapes))
    assert str(raised.value).startswith(begins)


FILE = (
    Operation("Const", ("axis",)),
    Operation("Pad", ("block/pad", "padded"), ', in a function of While "loop"'),
    Operation("Conv", ("block/conv",)),
    Operation("Conv", ("head/conv",)),
)
FAILED = "Failed operations detailed log: -- "


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        pytest.param(
            "Unsupported operation of type: Convolution name: head/conv Details",
            'Conv "head/conv"',
            id="an operation by its type",
        ),
        pytest.param(
            "Node block/conv of type Convolution has no",
            'Conv "block/conv"',
            id="a node by its type",
        ),
        pytest.param(
            "Check failed: While validating node 'opset1::Pad padded (opset1::Parameter"
            " x[0]:f32[1]) -> (f32[1])' with friendly_name 'padded': wrong",
            'Pad "block/pad", in a function of While "loop"',
            id="a node in a loop",
        ),
        pytest.param(
            f"{FAILED}Conv-11 with a message: weights lost -- Pad with a message: no",
            "Pad ",
            id="an operation in a message",
        ),
        pytest.param(
            f"{FAILED}Conv with a message: While validating node 'head/conv': no",
            'Conv "head/conv"',
            id="a friendly name",
        ),
        pytest.param(
            f"{FAILED}Lost-3 with a message: it is not there",
            "Lost: ",
            id="an operation that is lost",
        ),
        pytest.param(
            "While validating node 'opset1::Add Add_7 (x) -> (y)' with friendly_name 'Add_7': no",
            'Add "Add_7": ',
            id="an operation with a number",
        ),
        pytest.param(
            "node index is out of range",
            "OpenVINO refuses the graph without naming an operation",
            id="no operation",
        ),
    ],
)
def test_no_text_of_openvino_comes_before_what_it_is_about(text: str, culprit: str) -> None:
    with (
        pytest.raises(LoadFailed) as raised,
        among(lambda: FILE),
        load_failures("it cannot be read"),
    ):
        raise RuntimeError(text)
    said = str(raised.value)
    assert said.startswith(f"it cannot be read: {culprit}")
    assert WAYS_OUT.search(said.partition(OWN)[0])
    assert said.endswith(f"{OWN}{text})")


def test_a_file_that_is_gone_leaves_the_text_with_its_own_names() -> None:
    def listed() -> Sequence[Operation]:
        raise FileNotFoundError("model.onnx")

    with (
        pytest.raises(LoadFailed, match=r'^it cannot be read: Add "a": OpenVINO'),
        among(listed),
        load_failures("it cannot be read"),
    ):
        raise RuntimeError("Unsupported operation of type: Add name: a Details: none")


def test_a_request_that_fails_is_told_at_which_operation() -> None:
    error = RuntimeError("[CPU] Convert node with name 'cast' does not support this")
    begins = 'Convert "cast" cannot be computed with these shapes or values (OpenVINO: [CPU]'
    assert in_words(error).startswith(begins)
