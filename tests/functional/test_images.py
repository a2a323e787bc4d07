"""Images over both interfaces: numbers equal to OpenVINO's own pipeline on the decoded pixels."""

import base64
import concurrent.futures
import importlib.util
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
import tensorflow as tf
from openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm
from PIL import Image, ImageOps

from ie_serving.core.values.tensors import Array, DataType
from tests.functional.asking import predict_request
from tests.functional.commands import ie_serving
from tests.functional.conftest import Serve
from tests.functional.servers import Server, config_flag
from tests.functional.test_preprocessing import signatures
from tests.process import PATIENCE_S, output_of
from tests.unit.engines.openvino.models import parameter, result, save, unary
from tests.unit.wire.image.pictures import encoded, noise, png_header, saved, smooth
from tests.unit.wire.image.test_resize import F32

TOLERANCE = 0.02
"""Of 255: both resize in float32, OpenVINO with other roundings in between."""

F32_FLAG = "--inference_precision=f32"
"""Some processors would compute with 8 bits of mantissa."""

MEAN, SCALE = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
OVMS = {
    "layout": "NHWC:NCHW",
    "mean": MEAN,
    "scale": SCALE,
    "color_format": "BGR:RGB",
    "precision": "uint8:fp32",
}
"""As OpenVINO Model Server's documentation has them for ResNet-50 of the ONNX zoo."""

MODELS: Mapping[str, tuple[Sequence[int], Mapping[str, Any]]] = {
    "rows": ([-1, 24, 32, 3], {}),
    "planes": ([-1, 3, 24, 32], {}),
    "grey": ([-1, 24, 32, 1], {}),
    "ovms": ([1, 3, 24, 32], OVMS),
    "rgb": ([-1, 24, 32, 3], {"layout": "NHWC", "color_format": "RGB"}),
    "ranged": ([1, 24, 32, 3], {"shape": "(-1,20:24,-1,3)", "layout": "NHWC"}),
    "off": ([-1, 24, 32, 3], {"image_inputs": False}),
}
PHOTO = smooth(61, 83)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("models")
    entries = []
    for name, (shape, keys) in MODELS.items():
        unary(root / name / "1", shape, DataType.FP32, lambda x: op.multiply(x, np.float32(1)))
        entries.append({"name": name, "base_path": str(root / name), **keys})
    _two_inputs(root / "two" / "1")
    entries.append({"name": "two", "base_path": str(root / "two")})
    file = config_flag(root / "config.json", *entries)
    with Server("ie_serving", "config", file, F32_FLAG) as server:
        yield server.ready()


def _two_inputs(directory: Path) -> None:
    """Write y = x * factor; x may be an image, the factor not."""
    x, factor = parameter("x", [-1, 24, 32, 3]), parameter("factor", [])
    save(directory, [result("y", op.multiply(x, factor))], [x, factor])


def pixels_of(data: bytes) -> Array:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def reference(data: bytes, *, ovms: bool = False) -> Array:
    """One image by OpenVINO's own steps: decoded pixels in, resized and normalised out."""
    x = op.parameter([1, 24, 32, 3] if not ovms else [1, 3, 24, 32], ov.Type.f32)
    steps = PrePostProcessor(ov.Model([op.multiply(x, np.float32(1))], [x], "reference"))
    tensor, model = steps.input().tensor(), steps.input().model()
    tensor.set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    tensor.set_color_format(ColorFormat.RGB).set_spatial_dynamic_shape()
    model.set_layout(ov.Layout("NCHW" if ovms else "NHWC"))
    prepared = steps.input().preprocess().convert_element_type(ov.Type.f32)
    prepared.resize(ResizeAlgorithm.RESIZE_LINEAR)
    if ovms:
        prepared.mean(MEAN).scale(SCALE)
    else:
        prepared.convert_color(ColorFormat.BGR)
    compiled = ov.Core().compile_model(steps.build(), "CPU", F32)
    return np.asarray(compiled(pixels_of(data)[np.newaxis])[0])[0]


# -- three ways to send images ---------------------------------------------------------------------


def by_grpc(server: Server, model: str, *images: bytes) -> Array:
    request = predict_request(model, x=tf.make_tensor_proto(list(images), shape=[len(images)]))
    reply = server.prediction.Predict(request, PATIENCE_S)
    return np.asarray(tf.make_ndarray(reply.outputs["y"]))


def in_base64(data: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(data).decode()}


def by_rows(server: Server, model: str, *images: bytes) -> Array:
    return _posted(server, model, json={"instances": [{"x": in_base64(each)} for each in images]})


def by_columns(server: Server, model: str, *images: bytes) -> Array:
    return _posted(server, model, json={"inputs": {"x": [in_base64(each) for each in images]}})


def by_form(server: Server, model: str, *images: bytes) -> Array:
    return _posted(server, model, files=[("x", ("a.jpg", each)) for each in images])


def _posted(server: Server, model: str, **body: Any) -> Array:
    reply = server.rest.post(f"/v1/models/{model}:predict", **body)
    document = reply.json()
    assert reply.status_code == 200, document
    return np.asarray(document.get("predictions") or document["outputs"], np.float32)


WAYS: Sequence[Callable[..., Array]] = (by_grpc, by_rows, by_columns, by_form)


@pytest.fixture(params=WAYS)
def send(request: pytest.FixtureRequest) -> Callable[..., Array]:
    way: Callable[..., Array] = request.param
    return way


FILES = {
    "JPEG": encoded(PHOTO, "JPEG"),
    "PNG": encoded(noise(61, 83)),
    "WebP": encoded(PHOTO, "WEBP"),
    "a JPEG on its side": encoded(PHOTO, "JPEG", orientation=6),
    "a palette": saved(Image.fromarray(PHOTO).quantize(64)),
    "a grey JPEG": saved(Image.fromarray(PHOTO).convert("L"), "JPEG"),
    "alpha": encoded(noise(61, 83, 4)),
    "CMYK": saved(Image.fromarray(PHOTO).convert("CMYK"), "JPEG"),
    "that very size": encoded(noise(24, 32)),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_any_kind_is_answered_as_openvino_does(
    server: Server, send: Callable[..., Array], kind: str
) -> None:
    answered = send(server, "rows", FILES[kind])
    np.testing.assert_allclose(answered[0], reference(FILES[kind]), atol=TOLERANCE)


def test_a_batch_of_unlike_sizes_is_answered(server: Server, send: Callable[..., Array]) -> None:
    files = [FILES["JPEG"], FILES["a JPEG on its side"], encoded(noise(300, 200)), FILES["WebP"]]
    answered = send(server, "rows", *files)
    assert answered.shape == (4, 24, 32, 3)
    for row, data in zip(answered, files, strict=True):
        np.testing.assert_allclose(row, reference(data), atol=TOLERANCE)


def test_the_keys_of_ovms_normalise_images(server: Server, send: Callable[..., Array]) -> None:
    answered = send(server, "ovms", FILES["JPEG"])
    # The model takes bytes, so the resized pixels were rounded: half of 255 by the scale of 57.
    expected = reference(FILES["JPEG"], ovms=True)
    np.testing.assert_allclose(answered[0], expected, atol=0.52 / 57)


def test_channels_first_are_found_by_the_shape(server: Server, send: Callable[..., Array]) -> None:
    answered = send(server, "planes", FILES["PNG"])
    expected = reference(FILES["PNG"]).transpose(2, 0, 1)
    np.testing.assert_allclose(answered[0], expected, atol=TOLERANCE)


def test_colours_come_in_the_order_that_is_configured(
    server: Server, send: Callable[..., Array]
) -> None:
    answered = send(server, "rgb", FILES["PNG"])
    np.testing.assert_allclose(answered[0], reference(FILES["PNG"])[..., ::-1], atol=TOLERANCE)


def test_a_model_of_one_channel_gets_grey(server: Server, send: Callable[..., Array]) -> None:
    data = saved(Image.fromarray(noise(24, 32)).convert("L"))
    answered = send(server, "grey", data)
    np.testing.assert_array_equal(answered[0, ..., 0], np.asarray(Image.open(io.BytesIO(data))))


@pytest.mark.parametrize(
    ("size", "expected"), [((10, 50), (20, 50)), ((22, 7), (22, 7)), ((90, 40), (24, 40))]
)
def test_a_range_of_sizes_takes_the_nearest(
    server: Server,
    send: Callable[..., Array],
    size: tuple[int, int],
    expected: tuple[int, int],
) -> None:
    answered = send(server, "ranged", encoded(noise(*size)))
    assert answered.shape == (1, *expected, 3)


def test_numbers_are_answered_as_before(server: Server) -> None:
    sent = noise(24, 32)[np.newaxis].astype(np.float32)
    request = predict_request("rows", x=sent)
    reply = server.prediction.Predict(request, PATIENCE_S)
    np.testing.assert_array_equal(tf.make_ndarray(reply.outputs["y"]), sent)
    np.testing.assert_array_equal(_posted(server, "rows", json={"instances": sent.tolist()}), sent)


def test_an_image_is_sent_beside_numbers(server: Server) -> None:
    data = encoded(noise(24, 32))
    body = {"inputs": {"x": in_base64(data), "factor": 2.0}}
    by_json = _posted(server, "two", json=body)
    np.testing.assert_array_equal(by_json[0], 2.0 * pixels_of(data)[..., ::-1])
    by_fields = _posted(server, "two", files={"x": ("a.png", data)}, data={"factor": "2"})
    np.testing.assert_array_equal(by_fields, by_json)
    request = predict_request("two", x=[data], factor=np.float32(2))
    reply = server.prediction.Predict(request, PATIENCE_S)
    np.testing.assert_array_equal(tf.make_ndarray(reply.outputs["y"]), by_json)


# -- what is refused -------------------------------------------------------------------------------


def refused(server: Server, model: str, *images: bytes) -> list[str]:
    """The refusals over all interfaces, each with its code checked."""
    texts = []
    with pytest.raises(Exception, match="INVALID_ARGUMENT") as error:
        by_grpc(server, model, *images)
    texts.append(str(error.value))
    for body in (
        {"json": {"instances": [in_base64(each) for each in images]}},
        {"files": [("x", ("a.jpg", each)) for each in images]},
    ):
        reply = server.rest.post(f"/v1/models/{model}:predict", **body)
        assert reply.status_code == 400
        texts.append(reply.json()["error"])
    return texts


def test_a_batch_with_one_broken_image_names_it(server: Server) -> None:
    broken = FILES["PNG"][:-300]
    for text in refused(server, "rows", FILES["JPEG"], broken, FILES["JPEG"]):
        assert 'input "x": image 1 (of 0 to 2) is a damaged PNG' in text


def test_a_bomb_is_refused_while_others_are_answered(server: Server) -> None:
    bomb = png_header(65_000, 65_000)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        attacks = [threads.submit(refused, server, "rows", bomb) for _ in range(8)]
        for _ in range(20):
            by_grpc(server, "rows", FILES["JPEG"])
        for attack in attacks:
            assert all("65000 x 65000 pixels" in text for text in attack.result(PATIENCE_S))


@pytest.mark.parametrize("data", [b"x", b"\xff\xd8\xff\xe0", b"GIF89a"])
def test_bytes_that_are_no_image_are_refused(server: Server, data: bytes) -> None:
    for text in refused(server, "rows", data):
        assert 'input "x": the image is no JPEG, PNG or WebP' in text


def test_more_images_than_the_model_takes_are_refused(server: Server) -> None:
    for text in refused(server, "ovms", FILES["JPEG"], FILES["JPEG"]):
        assert "Obtained batch size 2, required batch size 1" in text


def test_where_images_are_off_strings_are_refused_as_ever(server: Server) -> None:
    with pytest.raises(Exception, match="to be float but string is provided"):
        by_grpc(server, "off", FILES["JPEG"])
    body = {"instances": [in_base64(FILES["JPEG"])]}
    reply = server.rest.post("/v1/models/off:predict", json=body)
    assert reply.status_code == 400
    assert "is not of expected type: float" in reply.json()["error"]


# -- what people are told --------------------------------------------------------------------------


def test_metadata_stays_that_of_numbers(server: Server) -> None:
    """As OpenVINO Model Server has it: shape and dtype of the decoded images."""
    for signature in signatures(server, "ovms"):
        taken = signature["inputs"]["x"]
        assert taken["dtype"] == "DT_UINT8"
        assert [dim["size"] for dim in taken["tensorShape"]["dim"]] == ["1", "24", "32", "3"]


def test_the_log_tells_what_images_become(serve: Serve, tmp_path: Path) -> None:
    unary(tmp_path / "1", [-1, 24, 32, 3], DataType.FP32, lambda x: op.multiply(x, np.float32(1)))
    server = serve("ie_serving", "--model_name=m", f"--model_path={tmp_path}")
    assert 'input=x image="24 x 32 BGR"' in server.log


OVMSCLIENT = """
import json, sys
from ovmsclient import make_grpc_client, make_http_client
images = [open(name, "rb").read() for name in sys.argv[3:]]
clients = make_grpc_client("127.0.0.1:" + sys.argv[1]), make_http_client("127.0.0.1:" + sys.argv[2])
answers = [client.predict({"x": images}, "rows") for client in clients]
print(json.dumps([answer.tolist() for answer in answers]))
"""
"""A program of its own, since the package brings copies of TensorFlow Serving's messages."""


def test_ovmsclient_sends_files_as_they_are(server: Server, tmp_path: Path) -> None:
    if importlib.util.find_spec("ovmsclient") is None:
        pytest.skip("ovmsclient is not installed")
    names = []
    for kind in ("JPEG", "PNG"):
        (tmp_path / kind).write_bytes(FILES[kind])
        names.append(str(tmp_path / kind))
    ports = (str(server.port), str(server.rest_port))
    answers = json.loads(output_of(sys.executable, "-c", OVMSCLIENT, *ports, *names)[-1])
    expected = [reference(FILES["JPEG"]), reference(FILES["PNG"])]
    for answer in answers:
        np.testing.assert_allclose(answer, expected, atol=TOLERANCE)


def test_the_command_sends_a_file_as_it_is(server: Server, tmp_path: Path) -> None:
    """Over REST in base64, over gRPC as a string."""
    file = tmp_path / "photo.png"
    file.write_bytes(FILES["PNG"])
    expected = by_rows(server, "rows", FILES["PNG"])
    for url in (server.url, f"grpc://127.0.0.1:{server.port}"):
        ran = ie_serving("predict", "--model_name=rows", f"--file={file}", f"--url={url}")
        assert ran.code == 0, ran.err
        answered = json.loads(ran.out)["predictions"]
        np.testing.assert_allclose(answered, expected, atol=TOLERANCE)
