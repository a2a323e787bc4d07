"""Layout, mean, scale, colours and types are computed as numpy does, or the model is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from PIL import Image

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Method, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.interface import preprocess
from ie_serving.engines.openvino.interface.draft import Draft
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing, PropertyPair
from ie_serving.engines.run.program import CompiledPrograms
from tests.unit.engines.openvino.models import add_one, parameter, result, run, save, unary

IMAGE = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
MEAN, SCALE = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
TRANSPOSED = PropertyPair("NHWC", "NCHW")


def load(directory: Path, own: OpenVinoOptions | None = None, **steps: object) -> CompiledPrograms:
    asked = Preprocessing(**steps)  # type: ignore[arg-type]
    options = EngineOptions().having(asked).having(own or OpenVinoOptions())
    return OpenVinoEngine().compile(directory, options)


def image_model(directory: Path, dtype: DataType = DataType.FP32) -> Path:
    """Write y = x for images in NCHW."""
    return unary(directory, [1, 3, 2, 4], dtype, lambda x: op.multiply(x, np.array(1, dtype.numpy)))


def spec(model: CompiledPrograms, kind: str, name: str) -> TensorSpec:
    found: TensorSpec = getattr(model.signatures[SERVING_DEFAULT], kind)[name]
    return found


async def test_all_of_it_as_a_client_of_opencv_needs_it(tmp_path: Path) -> None:
    model = load(
        image_model(tmp_path),
        layout=TRANSPOSED,
        mean=MEAN,
        scale=SCALE,
        color_format=PropertyPair("BGR", "RGB"),
        precision=PropertyPair("u8", "f32"),
    )
    x = spec(model, "inputs", "x")
    assert (x.dtype, x.shape) == (DataType.UINT8, (1, 2, 4, 3))
    answer = await run(model, {"x": IMAGE})
    rgb = (IMAGE[..., ::-1].astype(np.float32) - np.float32(MEAN)) / np.float32(SCALE)
    np.testing.assert_allclose(answer["y"], rgb.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-6)


async def test_one_number_needs_no_layout(tmp_path: Path) -> None:
    model = load(add_one(tmp_path), mean=(127.5,), scale=(2.0,))
    answer = await run(model, {"x": np.array([[0, 255]], np.float32)})
    assert answer["y"].tolist() == [[-62.75, 64.75]]


async def test_outputs_have_a_layout_by_name(tmp_path: Path) -> None:
    model = load(image_model(tmp_path), layout={"y": TRANSPOSED})
    assert spec(model, "inputs", "x").shape == (1, 3, 2, 4)
    assert spec(model, "outputs", "y").shape == (1, 2, 4, 3)
    x = np.random.default_rng(0).random((1, 3, 2, 4), np.float32)
    assert np.array_equal((await run(model, {"x": x}))["y"], x.transpose(0, 2, 3, 1))


async def test_names_are_those_that_clients_use(tmp_path: Path) -> None:
    image_model(tmp_path)
    (tmp_path / "mapping_config.json").write_text(json.dumps({"inputs": {"x": "image"}}))
    model = load(tmp_path, layout={"image": TRANSPOSED})
    assert spec(model, "inputs", "image").shape == (1, 2, 4, 3)


async def test_shape_and_batch_size_are_in_the_clients_layout(tmp_path: Path) -> None:
    image_model(tmp_path)
    shaped = load(tmp_path, OpenVinoOptions(shape=(2, 8, 6, 3)), layout=TRANSPOSED)
    assert spec(shaped, "inputs", "x").shape == (2, 8, 6, 3)
    assert spec(shaped, "outputs", "y").shape == (2, 3, 8, 6)
    last = load(tmp_path, OpenVinoOptions(batch_size=(1, 8)), layout=PropertyPair("CHWN", "NCHW"))
    assert spec(last, "inputs", "x").shape == (3, 2, 4, -1)
    answer = await run(last, {"x": np.ones((3, 2, 4, 5), np.float32)})
    assert answer["y"].shape == (5, 3, 2, 4)


async def test_a_layout_alone_says_where_the_batch_is(tmp_path: Path) -> None:
    unary(tmp_path, [3, 1], DataType.FP32, op.relu)
    model = load(tmp_path, OpenVinoOptions(batch_size=4), layout=PropertyPair("CN"))
    assert spec(model, "inputs", "x").shape == (3, 4)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        pytest.param({"mean": MEAN}, "mean: .*channels", id="where the channels are"),
        pytest.param(
            {"mean": (1.0, 2.0), "layout": TRANSPOSED}, "channels and mean", id="how many channels"
        ),
        pytest.param(
            {"color_format": PropertyPair("BGR", "RGB")}, "color_format: ", id="colours where"
        ),
        pytest.param({"layout": PropertyPair("NC", "CN")}, "layout: .*rank", id="of another rank"),
        pytest.param(
            {"layout": {"z": PropertyPair("NC")}}, "no input or output 'z'.*x, y", id="name"
        ),
    ],
)
def test_a_step_that_cannot_be_applied_fails_the_load(
    tmp_path: Path, steps: dict[str, object], text: str
) -> None:
    with pytest.raises(LoadFailed, match=text):
        load(image_model(tmp_path), **steps)


def test_a_mean_of_integers_would_be_rounded(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"mean: .*convert_element_type"):
        load(image_model(tmp_path, DataType.UINT8), mean=(1.5,))


def test_a_step_for_one_input_is_refused_for_two(tmp_path: Path) -> None:
    a, b = parameter("a", [2]), parameter("b", [2])
    save(tmp_path, [result("sum", op.add(a, b))], [a, b])
    with pytest.raises(LoadFailed, match=r"mean: meant for a model with one input.* has a, b"):
        load(tmp_path, mean=(1.0,))


def test_inputs_that_the_server_prepares_itself_are_refused() -> None:
    beside: Any = object()
    draft = Draft("parse", Method.PREDICT.value, None, [], [], beside=beside)
    with pytest.raises(LoadFailed, match="mean: cannot be applied to signature 'parse'"):
        preprocess.check(draft, Preprocessing(mean=(1.0,)))
    preprocess.check(draft, Preprocessing())


RESIZED = np.random.default_rng(3).integers(0, 256, (1, 7, 9, 3), np.uint8)


def pillow(image: np.ndarray, size: tuple[int, int], way: Image.Resampling) -> np.ndarray:
    """Resize each channel as floats, so that Pillow rounds nothing."""
    channels = [Image.fromarray(image[0, ..., c].astype(np.float32)) for c in range(3)]
    return np.stack([np.asarray(each.resize(size[::-1], way)) for each in channels])[None]


@pytest.mark.parametrize(
    ("way", "resampling"),
    [
        ("bilinear_pillow", Image.Resampling.BILINEAR),
        ("bicubic_pillow", Image.Resampling.BICUBIC),
    ],
)
async def test_images_of_any_size_become_the_models_as_pillow_resizes(
    tmp_path: Path, way: str, resampling: Image.Resampling
) -> None:
    f32 = OpenVinoOptions(inference_precision="f32")  # else in bf16 where the CPU has it
    model = load(
        image_model(tmp_path), f32, layout=TRANSPOSED, precision=PropertyPair("u8"), resize=way
    )
    assert spec(model, "inputs", "x").shape == (1, -1, -1, 3)
    for image in (RESIZED, IMAGE, np.repeat(RESIZED, 3, axis=2)):
        answer = await run(model, {"x": image})
        np.testing.assert_allclose(
            answer["y"], pillow(image, (2, 4), resampling), rtol=1e-4, atol=1e-2
        )


@pytest.mark.parametrize("way", ["linear", "cubic", "nearest"])
async def test_resize_is_openvinos_own(tmp_path: Path, way: str) -> None:
    """Of a constant image every way gives the constant, before the mean is subtracted."""
    model = load(
        image_model(tmp_path),
        layout=TRANSPOSED,
        precision=PropertyPair("u8"),
        resize=way,
        mean=(7.0,),
    )
    answer = await run(model, {"x": np.full((1, 5, 3, 3), 20, np.uint8)})
    np.testing.assert_allclose(answer["y"], np.full((1, 3, 2, 4), 13.0), rtol=1e-5)


async def test_shape_bounds_what_is_resized(tmp_path: Path) -> None:
    model = load(
        image_model(tmp_path),
        OpenVinoOptions(shape=(1, (2, 8), (2, 16), 3)),
        layout=TRANSPOSED,
        resize="linear",
    )
    assert (await run(model, {"x": np.ones((1, 8, 16, 3), np.float32)}))["y"].shape == (1, 3, 2, 4)
    with pytest.raises(InvalidTensor, match=r"2\.\.8, 2\.\.16"):
        await run(model, {"x": np.ones((1, 9, 16, 3), np.float32)})


def test_resize_needs_to_know_height_and_width(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="resize: layout must say which dimensions"):
        load(image_model(tmp_path / "fixed"), resize="linear")
    unary(tmp_path / "open", [1, 3, -1, -1], DataType.FP32, op.relu)
    with pytest.raises(LoadFailed, match="resize: the model takes images of other sizes itself"):
        load(tmp_path / "open", layout=TRANSPOSED, resize="linear")
