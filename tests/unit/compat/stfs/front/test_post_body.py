"""Bodies of `POST /` of simple_tensorflow_serving."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from ie_serving.compat.stfs.front.post_body import StfsBody, parse
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.image_form import ImageForm
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from tests.tables import named_by

PNG = b"\x89PNG\xff\xfe\xfb"
URL_SAFE = base64.urlsafe_b64encode(PNG).decode()
FORM = "multipart/form-data; boundary=b"


def signature(**dtypes: DataType | None) -> Signature:
    """Inputs by name; None is one of images."""
    form = ImageForm("NHWC", ((1, 9), (2, 2), (2, 2), (3, 3)), "RGB")
    specs = {
        name: TensorSpec(name, dtype or DataType.FP32, None, "", image=None if dtype else form)
        for name, dtype in dtypes.items()
    }
    return Signature("serving_default", specs, {})


TEMPLATE = signature(keys=DataType.INT32, features=DataType.FP32)
ONE = signature(x=DataType.FP64)


def body(data: object, **more: object) -> StfsBody:
    return parse(json.dumps({"data": data, **more}).encode(), b"application/json")


def form(*fields: tuple[str, str | bytes]) -> StfsBody:
    """Texts and files; files are bytes."""
    text = b""
    for name, value in fields:
        file = "; filename=f" if isinstance(value, bytes) else ""
        text += f'--b\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode()
        text += (value if isinstance(value, bytes) else value.encode()) + b"\r\n"
    return parse(text + b"--b--\r\n", FORM.encode())


def arrays(given: StfsBody, of: Signature) -> dict[str, Array]:
    return given.decode(of)[0]


def test_inputs_by_name_are_cast_to_the_signature() -> None:
    """README.md, "Multiple Models": the keys of integers are written as floats."""
    found = arrays(body({"keys": [[11.0], [2.0]], "features": [[1, 1], [1, 1]]}), TEMPLATE)
    assert found["keys"].dtype == np.int32
    assert found["keys"].tolist() == [[11], [2]]
    assert found["features"].dtype == np.float32
    assert found["features"].tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("data", [[[1, 2]], {"x": [[1, 2]]}, {"data": [[1, 2]]}])
def test_the_only_input_needs_no_name(data: object) -> None:
    """README.md, "Supported Models": `data` within `data`, or a bare list for scikit-learn."""
    assert arrays(body(data), ONE)["x"].tolist() == [[1.0, 2.0]]


def test_the_body_names_the_model_that_is_asked() -> None:
    assert body([], model_name="m", model_version=2, signature_name="s").model == ModelSpec(
        "m", 2, None, "s"
    )
    assert body([]).model == ModelSpec("default")
    assert body([], model_version="3").model.version == 3
    assert body([], model_version=-1).model.version is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [(URL_SAFE, PNG), (base64.b64encode(PNG).decode(), PNG), ({"b64": URL_SAFE}, PNG)],
)
def test_images_are_base64_of_both_alphabets(given: object, expected: bytes) -> None:
    """docs/source/image_model.md, "Inference with Python Client"."""
    found = arrays(body({"images": [given]}), signature(input_image=None))
    assert found["input_image"].tolist() == [expected]


def test_texts_stay_as_they_are_unless_they_are_to_be_decoded() -> None:
    """A model of strings decodes its base64 itself, as docs/source/image_model.md has it."""
    of = signature(images=DataType.STRING)
    assert arrays(body({"images": [URL_SAFE]}), of)["images"].tolist() == [URL_SAFE.encode()]
    decoded = body({"images": [URL_SAFE]}, base64_decode=True)
    assert arrays(decoded, of)["images"].tolist() == [PNG]


def test_images_that_are_numbers_are_taken() -> None:
    assert arrays(body({"x": [[[[1]]]]}), signature(x=None))["x"].shape == (1, 1, 1, 1)


def test_files_of_a_form_become_inputs() -> None:
    """README.md, "Image Model"."""
    given = form(("image", PNG), ("model_version", "1"), ("images", b"two"), ("images", b"three"))
    assert given.model == ModelSpec("default", 1)
    assert arrays(given, signature(any_name=None))["any_name"].tolist() == [PNG, b"two", b"three"]
    texts = arrays(form(("image", PNG)), signature(images=DataType.STRING))
    assert texts["images"].tolist() == [URL_SAFE.encode()]
    raw = form(("image", PNG), ("base64_decode", "true"))
    assert arrays(raw, signature(images=DataType.STRING))["images"].tolist() == [PNG]


def test_files_by_the_names_of_inputs() -> None:
    found = arrays(form(("a", PNG), ("b", b"two")), signature(a=None, b=None))
    assert {name: array.tolist() for name, array in found.items()} == {"a": [PNG], "b": [b"two"]}


@named_by(
    "given",
    ("given", "words"),
    [
        (b"{}", 'the key "data" is missing'),
        (b'{"keys": [[1]]}', "found keys: keys"),
        (b"[]", "Is not object"),
        (b"", "JSON"),
        (b'{"data": [], "preprocess": true}', "marshal"),
        (b'{"data": [], "run_profile": "true"}', "profiled"),
        (b'{"data": [], "model_name": 3}', "strings"),
        (b'{"data": [], "model_version": "one"}', "whole number"),
        (b'{"data": [], "model_version": 1.5}', "whole number"),
        (b'{"data": [], "model_version": 99999999999999999999}', "whole number"),
    ],
)
def test_a_body_that_is_no_request_is_refused(given: bytes, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        parse(given, b"application/json")


def test_a_form_without_a_file_tells_of_the_at() -> None:
    with pytest.raises(InvalidRequest, match="with the @"):
        form(("image", "cat.png"))


@pytest.mark.parametrize(
    ("data", "of", "words"),
    [
        pytest.param({"keys": [[1]]}, TEMPLATE, '"data" lacks features', id="a missing feature"),
        pytest.param([[1]], TEMPLATE, "each of keys, features", id="a list for two inputs"),
        pytest.param({"keys": [[1.5]], "features": [[1]]}, TEMPLATE, "int32", id="a fraction"),
        pytest.param(
            {"keys": [[1e20]], "features": [[1]]},
            TEMPLATE,
            "int32",
            id="a number that is too large",
        ),
        pytest.param({"y": 1}, ONE, '"data" lacks x', id="another input"),
        pytest.param({"x": [["a"]]}, ONE, "double", id="a text"),
        pytest.param({"images": ["*"]}, signature(x=None), "base64", id="no base64"),
    ],
)
def test_data_that_the_model_does_not_take_are_refused(
    data: Any, of: Signature, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        body(data).decode(of)


def test_a_file_for_numbers_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="takes numbers, and no images"):
        form(("image", PNG)).decode(ONE)


def test_lists_too_deep_for_a_tensor_are_refused() -> None:
    deep = json.loads("[" * 900 + '"aGk="' + "]" * 900)
    with pytest.raises(InvalidRequest, match="at most"):
        body({"x": deep}, base64_decode=True).decode(signature(x=DataType.STRING))
