"""Images inside of a graph: by Pillow, against TensorFlow, which has also made the files."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.savedmodel.host.attributes import Attributes
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.wire.protobuf import graph

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
    [(COLOURS, 0), (COLOURS, 3), (COLOURS, 4), (GREY, 0), (GREY, 3), (WITH_ALPHA, 0),
     (WITH_ALPHA, 3)],
)  # fmt: skip
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


@pytest.mark.parametrize("data", [b"", b"junk", tf.io.encode_jpeg(COLOURS).numpy()[:300]])
def test_what_is_no_image_is_the_clients_mistake(data: bytes) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(data)
    with pytest.raises(InvalidRequest, match="Unknown image file format, or invalid data"):
        ours("DecodeImage", data, 3)


def test_what_is_decoded_in_another_way_is_refused() -> None:
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


async def test_a_model_that_decodes_a_batch_of_files_equals_tensorflow(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    model = Classifier()
    tf.saved_model.save(model, str(tmp_path))
    files = [tf.io.encode_jpeg(COLOURS[: 20 + at]).numpy() for at in range(3)]
    options = EngineOptions().having(OpenVinoOptions(inference_precision="f32"))
    compiled = OpenVinoEngine().compile(tmp_path, options)
    signature = compiled.signatures["serving_default"]
    inputs = {"files": np.array(files, np.object_)}
    answer = await compiled.infer(signature, inputs, lambda outputs: outputs["output_0"].copy())
    compiled.close()
    np.testing.assert_allclose(answer, model(tf.constant(files)), rtol=1e-5, atol=1e-6)


def test_without_pillow_the_load_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(LoadFailed, match=r"pip install '.\[images\]'"):
        KERNELS["DecodeJpeg"].make(node_of("DecodeJpeg", 3))
