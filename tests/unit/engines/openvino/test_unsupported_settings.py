"""What other engines than OpenVINO are asked for and cannot do."""

import pytest

from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.unsupported_settings import unsupported
from ie_serving.engines.preprocessing import Preprocessing

Shape = tuple[int, ...] | None


def signature(*shapes: Shape) -> Signature:
    names = [f"x{number}" for number in range(len(shapes))]
    specs = {
        name: TensorSpec(name, DataType.FP32, shape, name)
        for name, shape in zip(names, shapes, strict=True)
    }
    return Signature("serving_default", specs, {})


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(OpenVinoOptions(), "", id="nothing is asked for"),
        pytest.param(OpenVinoOptions(inference_precision="f32"), "", id="full precision"),
        pytest.param(
            OpenVinoOptions(inference_precision="bf16"), "inference_precision", id="less of it"
        ),
        pytest.param(OpenVinoOptions(shape="auto"), "shape", id="any shape"),
        pytest.param(
            OpenVinoOptions(shape=(1, 2), inference_precision="f16"),
            "shape, inference_precision",
            id="several settings",
        ),
        pytest.param(Preprocessing(mean=(1.0,), scale=(2.0,)), "mean, scale", id="steps before"),
        pytest.param(
            OpenVinoOptions(integers="refuse", plugin_config={"NUM_STREAMS": "2"}),
            "",
            id="what changes no answer",
        ),
    ],
)
def test_settings_that_change_what_is_computed_are_named(own: object, expected: str) -> None:
    assert unsupported(EngineOptions().having(own), signature((-1, 2))) == expected


@pytest.mark.parametrize(
    ("shapes", "batch_size", "is_met"),
    [
        pytest.param([(-1, 2)], -1, True, id="an open batch takes any"),
        pytest.param([(4, 2)], 4, True, id="of that size already"),
        pytest.param([(4, 2)], -1, False, id="a fixed one does not take any"),
        pytest.param([(-1, 2)], 4, False, id="an open one takes others too"),
        pytest.param([(-1, 2)], (1, 8), False, id="and more than a range"),
        pytest.param([(-1, 2), (4,)], -1, False, id="each input counts"),
        pytest.param([(-1, 2), ()], -1, True, id="a scalar has no batch"),
        pytest.param([None], -1, True, id="any rank takes any batch"),
    ],
)
def test_a_batch_that_the_model_has_already_asks_nothing(
    shapes: list[Shape], batch_size: int | tuple[int, int], is_met: bool
) -> None:
    options = EngineOptions().having(OpenVinoOptions(batch_size=batch_size))
    assert unsupported(options, signature(*shapes)) == ("" if is_met else "batch_size")
