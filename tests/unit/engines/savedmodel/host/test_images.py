"""Images inside of a graph: by Pillow, against TensorFlow, which has also made most files."""

import io
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.savedmodel.host import kernels_images, kernels_loops
from ie_serving.engines.savedmodel.host.host_kernel import Attributes
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.wire.protobuf import graph
from tests.unit.wire.image.pictures import encoded

Y, X = np.mgrid[0:45, 0:61]
COLOURS = np.stack([X * 4, Y * 5, (X + Y) * 2], axis=-1).astype(np.uint8)
GREY = COLOURS[..., :1]
WITH_ALPHA = np.concatenate([COLOURS, GREY], axis=-1)


def node_of(operation: str, channels: int, **texts: str) -> Attributes:
    node = graph.NodeDef(name="n", op=operation)
    node.attr["channels"].i = channels
    for name, value in texts.items():
        node.attr[name].s = value.encode()
    return Attributes(node)


def ours(operation: str, data: bytes, channels: int, **texts: str) -> Any:
    pytest.importorskip("PIL")
    compute = KERNELS[operation].make(node_of(operation, channels, **texts))
    return compute(np.array(data, np.object_))


@pytest.mark.parametrize(
    ("pixels", "channels"),
    [
        pytest.param(COLOURS, 0, id="colours as they are"),
        pytest.param(COLOURS, 3, id="colours as colours"),
        pytest.param(COLOURS, 4, id="colours with alpha"),
        pytest.param(GREY, 0, id="grey as it is"),
        pytest.param(GREY, 3, id="grey as colours"),
        pytest.param(WITH_ALPHA, 0, id="alpha as it is"),
        pytest.param(WITH_ALPHA, 3, id="alpha left out"),
    ],
)
def test_png_equals_tensorflow(pixels: Any, channels: int) -> None:
    data = tf.io.encode_png(pixels).numpy()
    want = tf.io.decode_png(data, channels=channels).numpy()
    np.testing.assert_array_equal(ours("DecodePng", data, channels), want)


@pytest.mark.parametrize("form", ["rgb", "grayscale"])
@pytest.mark.parametrize("channels", [0, 1, 3])
def test_jpeg_equals_tensorflow_where_both_use_the_accurate_transform(
    form: str, channels: int
) -> None:
    data = tf.io.encode_jpeg(COLOURS if form == "rgb" else GREY, quality=80).numpy()
    exact = {"channels": channels, "dct_method": "INTEGER_ACCURATE"}
    want = tf.io.decode_jpeg(data, **exact).numpy()
    np.testing.assert_array_equal(ours("DecodeJpeg", data, **exact), want)


def test_jpeg_differs_little_from_the_fast_transform_of_tensorflow() -> None:
    data = tf.io.encode_jpeg(COLOURS, quality=90).numpy()
    want = tf.io.decode_jpeg(data, channels=3).numpy().astype(int)
    difference = np.abs(ours("DecodeJpeg", data, 3) - want)
    assert difference.mean() < 1.5
    assert difference.max() <= 15


def written(form: str, pixels: Any, **options: Any) -> bytes:
    """Write a file of a kind that TensorFlow does not write."""
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.fromarray(pixels).save(file, form, **options)
    return file.getvalue()


def test_bmp_equals_tensorflow() -> None:
    data = written("BMP", COLOURS)
    np.testing.assert_array_equal(ours("DecodeBmp", data, 3), tf.io.decode_bmp(data).numpy())


@pytest.mark.parametrize("pixels", [COLOURS, GREY[..., 0]], ids=["palette", "grey"])
def test_gif_of_one_frame_equals_tensorflow(pixels: Any) -> None:
    data = written("GIF", pixels)
    np.testing.assert_array_equal(ours("DecodeGif", data, 0), tf.io.decode_gif(data).numpy())


def test_a_gif_that_is_put_together_of_parts_is_refused() -> None:
    image = pytest.importorskip("PIL.Image")
    more = [image.fromarray(COLOURS[::-1])]
    moving = written("GIF", COLOURS, save_all=True, append_images=more)
    partial = bytearray(written("GIF", COLOURS))
    partial[6:8] = (80).to_bytes(2, "little")  # the width of the picture, of which the frame has 61
    for data in (moving, bytes(partial)):
        with pytest.raises(InvalidRequest, match="the image is GIF"):
            ours("DecodeGif", data, 0)


def test_the_first_picture_of_a_jpeg_with_several_is_read() -> None:
    image = pytest.importorskip("PIL.Image")
    more = [image.fromarray(COLOURS[::-1])]
    data = written("MPO", COLOURS, save_all=True, append_images=more)
    exact = {"channels": 3, "dct_method": "INTEGER_ACCURATE"}
    want = tf.io.decode_jpeg(data, **exact).numpy()
    np.testing.assert_array_equal(ours("DecodeJpeg", data, **exact), want)


@pytest.mark.parametrize("data", [b"", b"junk", encoded(COLOURS, "JPEG")[:300]])
def test_bytes_that_are_no_image_are_the_clients_mistake(data: bytes) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(data)
    with pytest.raises(InvalidRequest, match="Unknown image file format, or invalid data"):
        ours("DecodeImage", data, 3)


def test_an_image_that_pillow_decodes_in_another_way_is_refused() -> None:
    data = tf.io.encode_png(COLOURS).numpy()
    with pytest.raises(InvalidRequest, match="PNG of mode RGB; 1 channels"):
        ours("DecodePng", data, 1)


class Classifier(tf.Module):  # type: ignore[misc]
    """What image models export for clients that send files."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable([[1.0, 2.0], [0.5, -1.0], [-1.0, 0.25]])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "files")])
    def __call__(self, files: Any) -> Any:
        def decoded(data: Any) -> Any:
            pixels = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
            return tf.image.resize(pixels, [8, 9]) / 255.0

        images = tf.map_fn(decoded, files, fn_output_signature=tf.float32)
        return tf.matmul(tf.reduce_mean(images, axis=[1, 2]), self.kernel)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "files")])
    def folded(self, files: Any) -> Any:
        """A loop of which each turn needs the one before."""

        def added(total: Any, data: Any) -> Any:
            pixels = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
            return total / 2 + tf.reduce_mean(tf.cast(pixels, tf.float32))

        return tf.foldl(added, files, tf.constant(0.0))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "files")])
    def chained(self, files: Any) -> Any:
        """A loop of which each turn reads what the one before has set."""
        count = tf.size(files)
        found = tf.TensorArray(tf.float32, count, clear_after_read=False)

        def turn(at: Any, found: Any, mixed: Any) -> Any:
            pixels = tf.io.decode_jpeg(files[at], channels=3, dct_method="INTEGER_ACCURATE")
            found = found.write(at, tf.reduce_mean(tf.cast(pixels, tf.float32)))
            both = found.read(at) + found.read(tf.maximum(at - 1, 0)) / 2
            return at + 1, found, mixed.write(at, both)

        state = [0, found, tf.TensorArray(tf.float32, count)]
        mixed = tf.while_loop(lambda at, *_: at < count, turn, state)[2]
        return mixed.stack()


@pytest.fixture(scope="module")
def judge() -> Classifier:
    """The model in TensorFlow, which traces each of its functions once."""
    return Classifier()


@pytest.fixture(scope="module")
def classifier(
    tmp_path_factory: pytest.TempPathFactory, judge: Classifier
) -> Iterator[CompiledModel]:
    pytest.importorskip("PIL")
    path = tmp_path_factory.mktemp("classifier")
    signatures = {
        "serving_default": judge.__call__,
        "folded": judge.folded,
        "chained": judge.chained,
    }
    tf.saved_model.save(judge, str(path), signatures=signatures)
    options = EngineOptions().having(OpenVinoOptions(inference_precision="f32"))
    compiled = OpenVinoEngine().compile(path, options)
    yield compiled
    compiled.close()


async def answer(compiled: CompiledModel, name: str, files: list[bytes]) -> Any:
    inputs = {"files": np.array(files, np.object_)}
    return await compiled.infer(
        compiled.signatures[name], inputs, lambda outputs: outputs["output_0"].copy()
    )


FILES = [encoded(COLOURS[: 20 + at], "JPEG") for at in range(9)]


async def test_the_rows_of_a_batch_are_decoded_by_several_threads_at_a_time(
    classifier: CompiledModel, judge: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, decode = threading.Barrier(2), kernels_images.decoded
    names = set()

    def decoded(*given: Any) -> Any:
        names.add(threading.current_thread().name)
        both.wait(10)
        return decode(*given)

    monkeypatch.setattr(kernels_loops, "THREADS", 2)
    monkeypatch.setattr(kernels_images, "decoded", decoded)
    found = await answer(classifier, "serving_default", FILES[:8])
    assert len(names) == 2
    np.testing.assert_allclose(found, judge(tf.constant(FILES[:8])), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 9])
async def test_rows_stay_in_their_order(
    classifier: CompiledModel, judge: Classifier, count: int
) -> None:
    found = await answer(classifier, "serving_default", FILES[:count])
    expected = judge(tf.constant(FILES[:count], tf.string))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


async def test_of_several_rows_that_are_no_image_the_first_is_refused(
    classifier: CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels_loops, "THREADS", 2)
    grey = tf.io.encode_png(COLOURS[..., :2]).numpy()
    with pytest.raises(InvalidRequest, match="the image is PNG of mode LA"):
        await answer(classifier, "serving_default", [*FILES, grey, b"no image", b""])


@pytest.mark.parametrize("name", ["folded", "chained"])
async def test_a_loop_whose_turns_need_each_other_runs_them_in_turn(
    classifier: CompiledModel, judge: Classifier, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        kernels_loops.RowLoop, "run", lambda *given: pytest.fail("in several threads")
    )
    found = await answer(classifier, name, FILES)
    expected = getattr(judge, name)(tf.constant(FILES))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_without_pillow_the_load_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(LoadFailed, match=r"pip install '.\[images\]'"):
        KERNELS["DecodeJpeg"].make(node_of("DecodeJpeg", 3))
