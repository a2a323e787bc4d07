"""Operations are named as their file names them."""

import openvino as ov
import pytest
from onnx import TensorProto, helper

from ie_serving.engines.openvino.graphs.walk import title
from tests.onnx_models import Of, onnx_model


@pytest.mark.parametrize(
    ("kind", "node", "ends", "name"),
    [
        ("TopK", (["x", "k"], ["v", "i"]), {"x": ["n", 5], "k": Of(TensorProto.INT64, [1])}, "i"),
        (
            "LSTM",
            (["x", "w", "r", "", "lengths"], ["y"]),
            {
                "x": ["t", "b", 3],
                "w": [1, 16, 3],
                "r": [1, 16, 4],
                "lengths": Of(TensorProto.INT32, ["b"]),
            },
            "y",
        ),
    ],
)
def test_an_operation_is_named_by_what_it_gives(
    kind: str, node: tuple[list[str], list[str]], ends: dict[str, object], name: str
) -> None:
    """OpenVINO names what it makes of one operator by numbers."""
    sizes = {"hidden_size": 4} if kind == "LSTM" else {}
    model = onnx_model([helper.make_node(kind, *node, **sizes)], ends, name)  # type: ignore[arg-type]
    read = ov.Core().read_model(model.SerializeToString(), b"")
    (found,) = [each for each in read.get_ops() if each.get_type_name().startswith(kind)]
    assert title(found) == f'{found.get_type_name()} "{name}"'
