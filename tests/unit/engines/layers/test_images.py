"""Images become arrays in front of a model; numbers pass, and what is broken names its image."""

import asyncio
import json
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidTensor, ServingError
from ie_serving.core.values.fit import cast_all, fit
from ie_serving.core.values.image_form import NO_LIMIT, ImageBounds, ImageForm
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, TensorSpec
from ie_serving.engines.base import CompiledModel, Engine, EngineOptions
from ie_serving.engines.layers import images
from ie_serving.engines.layers.images import ImageBatch, ImageLayer, taking_images
from ie_serving.engines.layers.layer import LayeredEngine
from ie_serving.engines.preprocessing import Preprocessing, PropertyPair
from ie_serving.wire.image import decode, resized
from tests.stand_in_engine import FILE, StandInEngine
from tests.unit.engines.contract import EngineContract
from tests.unit.wire.image.pictures import encoded, noise, png_header

SPEC = {"shape": [-1, 4, 6, 3], "value": 0}
PICTURE = noise(4, 6)


class Imaged:
    """The stand-in engine with images; its own contract has inputs of two dimensions."""

    name = "imaged"

    def __init__(self) -> None:
        self._engine = LayeredEngine(StandInEngine(), taking_images)

    def missing(self, files: Collection[str]) -> str | None:
        return self._engine.missing(files)

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        return self._engine.compile(directory, options)


class TestWithImages(EngineContract):
    engine: Callable[[], Engine] = Imaged

    @staticmethod
    def write_add_one(directory: Path) -> None:
        (directory / FILE).write_text('{"shape": [-1, 2]}')

    @staticmethod
    def spoil(directory: Path) -> None:
        (directory / FILE).write_text("{")


def load(directory: Path, written: Mapping[str, Any] = SPEC, **options: Any) -> CompiledModel:
    (directory / FILE).write_text(json.dumps(written))
    return LayeredEngine(StandInEngine(), taking_images).compile(
        directory, EngineOptions(**options)
    )


def strings(*values: bytes) -> Array:
    array: Array = np.empty(len(values), np.object_)
    array[:] = values
    return array


async def run(model: CompiledModel, sent: Array) -> Array:
    """Do what the data plane does."""
    signature = model.signatures[SERVING_DEFAULT]
    inputs, added = fit(signature, cast_all(signature, {"x": sent}))
    assert added == 0
    return await model.infer(signature, inputs, lambda outputs: outputs["y"].copy())


async def test_a_batch_of_images_is_decoded(tmp_path: Path) -> None:
    model = load(tmp_path)
    pictures = [noise(4, 6, seed=seed) for seed in range(9)]
    y = await run(model, strings(*map(encoded, pictures)))
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.stack(pictures))


async def test_images_of_all_sizes_are_resized(tmp_path: Path) -> None:
    pictures = [noise(9, 9), noise(2, 3), PICTURE]
    y = await run(load(tmp_path), strings(*map(encoded, pictures)))
    for row, picture in zip(y, pictures, strict=True):
        np.testing.assert_array_equal(row, resized(picture, 4, 6))


async def test_a_scalar_is_a_batch_of_one(tmp_path: Path) -> None:
    y = await run(load(tmp_path), strings(encoded(PICTURE)).reshape(()))
    np.testing.assert_array_equal(y, PICTURE[np.newaxis])


async def test_numbers_pass_as_they_are(tmp_path: Path) -> None:
    model = load(tmp_path)
    sent = noise(4, 6)[np.newaxis].astype(np.float32)
    np.testing.assert_array_equal(await run(model, sent), sent)


@pytest.mark.parametrize("colours", ["RGB", "BGR"])
async def test_colours_come_in_the_order_that_clients_send(tmp_path: Path, colours: str) -> None:
    chosen = Preprocessing(color_format=PropertyPair(colours, "RGB"))
    y = await run(load(tmp_path, own=(chosen,)), strings(encoded(PICTURE)))
    np.testing.assert_array_equal(y[0], PICTURE if colours == "RGB" else PICTURE[..., ::-1])


@pytest.mark.parametrize("shape", [[-1, 3, 4, 6], [1, 3, 4, 6]])
async def test_channels_may_come_first(tmp_path: Path, shape: list[int]) -> None:
    y = await run(load(tmp_path, {**SPEC, "shape": shape}), strings(encoded(PICTURE)))
    np.testing.assert_array_equal(y[0], PICTURE.transpose(2, 0, 1))


@pytest.mark.parametrize("dtype", ["UINT8", "INT32", "FP16", "FP64"])
async def test_element_types_hold_the_rounded_pixels(tmp_path: Path, dtype: str) -> None:
    written = {**SPEC, "shape": [-1, 3, 3, 1], "dtype": dtype}
    y = await run(load(tmp_path, written), strings(encoded(noise(7, 8, 1))))
    exact = resized(noise(7, 8, 1), 3, 3)
    assert y.dtype == DataType[dtype].numpy
    expected = exact.round() if y.dtype.kind in "iu" else exact
    np.testing.assert_allclose(y[0], expected, rtol=1e-3)


async def test_the_first_broken_image_is_named(tmp_path: Path) -> None:
    good, broken = encoded(PICTURE), encoded(noise(40, 40))[:-200]
    with pytest.raises(InvalidTensor, match=r'"x": image 2 \(of 0 to 4\) is a damaged PNG'):
        await run(load(tmp_path), strings(good, good, broken, good, b"not even that"))


async def test_a_huge_image_is_named_and_its_neighbours_answer(tmp_path: Path) -> None:
    model = load(tmp_path)
    bomb = run(model, strings(encoded(PICTURE), png_header(60_000, 60_000)))
    good = run(model, strings(encoded(PICTURE)))
    refused, y = await asyncio.gather(bomb, good, return_exceptions=True)
    assert isinstance(refused, InvalidTensor)
    assert "image 1 (of 0 to 1) has 60000 x 60000 pixels" in str(refused)
    assert isinstance(y, np.ndarray)


async def test_a_batch_stays_within_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tmp_path, {**SPEC, "shape": [-1, 500, 500, 3]})
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + (1 << 20))
    with pytest.raises(ServingError, match="bytes"):
        await run(model, strings(encoded(PICTURE)))


async def test_nothing_is_held_when_a_request_has_ended(tmp_path: Path) -> None:
    model = load(tmp_path, {**SPEC, "shape": [-1, 200, 200, 3]})
    held = BUDGET.held
    for sent in (strings(encoded(noise(300, 300))), strings(encoded(noise(300, 300)), b"broken")):
        await asyncio.gather(run(model, sent), return_exceptions=True)
    await asyncio.sleep(0)  # the turn of the loop that brought the error still refers to it
    assert BUDGET.held == held


@pytest.mark.parametrize(
    ("shape", "sent", "phrase"),
    [
        pytest.param(
            [1, 4, 6, 3],
            (2,),
            r"Obtained batch size 2, required batch size 1",
            id="more than the batch",
        ),
        pytest.param(
            [-1, 4, 6, 3],
            (0,),
            r"Obtained batch size 0, required batch size 1 or more: one image",
            id="no image",
        ),
        pytest.param(
            [-1, 4, 6, 3], (1, 1), r"images of shape \(1, 1\): send a list", id="a list of lists"
        ),
        pytest.param(
            [-1, 4, 6, 3], (1, 4, 6, 3), r"images of shape \(1, 4, 6, 3\)", id="the shape of pixels"
        ),
    ],
)
async def test_shapes_of_strings_that_are_no_batch_are_refused(
    tmp_path: Path, shape: list[int], sent: tuple[int, ...], phrase: str
) -> None:
    with pytest.raises(InvalidTensor, match=phrase):
        await run(load(tmp_path, {**SPEC, "shape": shape}), np.full(sent, b"x", np.object_))


async def test_a_model_without_images_has_no_layer(tmp_path: Path) -> None:
    for written, options in (({"shape": [-1, 4]}, {}), (SPEC, {"image_inputs": False})):
        model = load(tmp_path, written, **options)
        assert not isinstance(model, ImageLayer)
        with pytest.raises(InvalidTensor, match="to be float but string is provided"):
            await run(model, strings(b"x"))


async def test_the_rest_of_a_batch_is_not_begun_when_its_client_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, go_on = (
        asyncio.get_running_loop(),
        asyncio.Event(),
        threading.Event(),
    )
    decoded = []

    def held_up(data: bytes, channels: int) -> Array:
        decoded.append(data)
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(10)
        return decode(data, channels)

    monkeypatch.setattr(images, "decode", held_up)
    task = asyncio.ensure_future(run(load(tmp_path), strings(*[encoded(PICTURE)] * 100)))
    await asyncio.wait_for(begun.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await asyncio.wrap_future(images.DECODING_THREADS.submit(lambda: None))
    assert len(decoded) <= images.THREADS


# -- sizes that images decide --------------------------------------------------------------------


def spec(*sizes: tuple[int, int]) -> TensorSpec:
    shape = tuple(low if low == high else -1 for low, high in sizes)
    form = ImageForm("NHWC", sizes, "RGB")
    return TensorSpec("x", DataType.UINT8, shape, "x:0", image=form)


def batch(sizes: ImageBounds, *pictures: Array) -> Array:
    made = ImageBatch(spec(*sizes), strings(*map(encoded, pictures)))
    for side_by_side in made.steps(3):
        for work in side_by_side:
            work()
    return made.array()


ANY, ONE, COLOURS = (0, NO_LIMIT), (1, 1), (3, 3)


def test_within_bounds_the_first_image_decides() -> None:
    bounds = (ANY, (3, 5), (4, 8), COLOURS)
    assert batch(bounds, noise(4, 6), noise(9, 9)).shape == (2, 4, 6, 3)
    assert batch(bounds, noise(9, 2), noise(4, 6)).shape == (2, 5, 4, 3)


def test_without_bounds_images_of_a_request_must_be_alike() -> None:
    bounds = (ANY, ANY, ANY, COLOURS)
    pictures = [noise(4, 6), noise(4, 6, seed=2)]
    np.testing.assert_array_equal(batch(bounds, *pictures), np.stack(pictures))
    with pytest.raises(InvalidTensor, match=r"image 1 .* has 5 rows of 6 pixels, the first one 4"):
        batch(bounds, noise(4, 6), noise(5, 6))


def test_a_fixed_side_is_resized_beside_an_open_one() -> None:
    assert batch((ANY, ANY, (6, 6), COLOURS), noise(4, 9), noise(4, 3)).shape == (2, 4, 6, 3)


def test_check_says_what_images_become(tmp_path: Path) -> None:
    assert load(tmp_path).signatures[SERVING_DEFAULT].runs_on == (
        'the stand-in; also takes images for "x" (4 x 6 RGB)'
    )
