"""What OpenVINO would convert into something else is refused, or converted rightly; never wrong."""

from pathlib import Path

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.engines.run.program import CompiledPrograms
from tests.tables import named_by
from tests.unit.engines.openvino.models import load, run

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def model(odd_exports: Path) -> CompiledPrograms:
    return load(odd_exports / "wrong" / "1", inference_precision="f32")


async def test_outputs_of_a_node_in_a_function_are_not_mixed_up(model: CompiledPrograms) -> None:
    answer = await run(model, {"ids": np.array([3, 1, 3, 5])})
    assert answer["found"].tolist() == [3, 1, 5]
    assert answer["places"].tolist() == [0, 1, 0, 2]
    assert answer["counts"].tolist() == [2, 1, 1]


@named_by(
    "name",
    ("name", "cause"),
    [
        ("grows", "lets a TensorArray grow"),
        ("grows_without_loop", "lets a TensorArray grow"),
        ("joins", "joins elements that may differ in length"),
        ("pooled", "has the padding SAME"),
        ("pooled_by_strides", "has other strides than its window is large"),
        (
            "spread",
            "XlaConvV2 'XlaConvV2' spreads its input (lhs_dilation), which OpenVINO ignores",
        ),
        ("other_rank", "'scores' to the shape (1,), but the signature declares (1, 1)"),
    ],
)
def test_a_signature_that_would_be_converted_wrongly_is_left_out(
    model: CompiledPrograms, name: str, cause: str
) -> None:
    assert cause in model.signatures[name].left_out


async def test_a_list_that_has_its_size_is_served(model: CompiledPrograms) -> None:
    answer = await run(model, {"rows": ROWS}, "has_its_size")
    assert answer["y"].tolist() == (ROWS * 2).tolist()


async def test_channels_are_normalized_by_those_beside_them(model: CompiledPrograms) -> None:
    x = np.array([1, 2, 3, 0, 0, 1], np.float32)
    answer = await run(model, {"x": x.reshape(1, 1, 1, 6)}, "normalized")
    sums = np.convolve(x * x, np.ones(3), "same")
    np.testing.assert_allclose(answer["y"].ravel(), x / np.sqrt(1 + sums), rtol=1e-5)


async def test_elements_of_one_length_are_joined(model: CompiledPrograms) -> None:
    answer = await run(model, {"rows": ROWS}, "joins_alike")
    assert answer["y"].tolist() == [
        row for each in ROWS for row in (each.tolist(), (-each).tolist())
    ]


@pytest.mark.parametrize("beyond", [-1, 3])
async def test_indices_are_refused_as_tensorflow_does(model: CompiledPrograms, beyond: int) -> None:
    """OpenVINO counts negative ones from the end, and takes zeros for those above."""
    answer = await run(model, {"ids": np.array([2, 0])}, "gathers")
    assert answer["y"].tolist() == [9, 7]
    with pytest.raises(InvalidTensor, match="send indices from 0 to the size"):
        await run(model, {"ids": np.array([0, beyond])}, "gathers")
