"""Images instead of numbers: what OpenVINO Model Server calls binary inputs."""

import base64
import json

from tests.functional.conformance.case import Rest, Rpc, Section
from tests.functional.conformance.cases.rest_predict import (
    bad,
    columns,
    ok,
    predictions,
    rows,
)
from tests.functional.conformance.messages import floats, predict, predicted, tensor

IMAGES = "Inputs that look like images take them, as in OpenVINO Model Server."
FORMS = "A form is taken as well as JSON."
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR42mNkZGJmZmYGAAA8ABFsBfqhAAAAAElFTkSu"
    "QmCC"
)
"""Two pixels: red 1, green 2, blue 3, and 4, 5, 6."""
FILE = base64.b64decode(PNG)
IMAGE = f'{{"b64": "{PNG}"}}'
TWO_PIXELS = "[[[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]]]"
COLUMN = json.dumps({"outputs": [[[[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]]]]}, indent=4)
RULE = "a b64 object for an input of numbers"
HEAD = b'--x\r\nContent-Disposition: form-data; name="x"; filename="a.png"\r\n\r\n'
TARGET = "/v1/models/picture:predict"
FORM = {"Content-Type": "multipart/form-data; boundary=x"}


def _strings(*values: bytes) -> str:
    shown = ", ".join('"' + "".join(f"\\{byte:03o}" for byte in each) + '"' for each in values)
    return tensor("DT_STRING", [len(values)], f"string_val: [{shown}]")


SECTIONS = [
    Section(
        "2.8 Images instead of numbers",
        """\
An input of four dimensions with 3 channels, or 1, takes JPEG, PNG and WebP, too: over gRPC a
DT_STRING tensor of shape `[n]`, over REST base64 objects, or a form. Each file becomes a row. It is
turned upright, resized to the model's size (of a range to the nearest one; where any size is taken
it keeps its own), and given in the order of colours that `color_format` says clients send; else in
RGB, and in BGR for OpenVINO IR and PaddlePaddle, as OpenVINO Model Server has it. It is resized
bilinearly, as OpenCV does: within 0.02 of 255 of OpenVINO's own resize. Where
the channels stand `layout` says, else the model, else its shape. The metadata is that of numbers. A
form has a file for each image, in a field that is named as the input, and what other inputs need as
fields of JSON. Of an animation (WebP, APNG) or a photo of several pictures (MPO) the first counts;
GIF is refused. `picture` returns its input `x` of shape `[-1, 1, 2, 3]`.

    curl -F x=@cat.jpg -F x=@dog.png http://localhost:8501/v1/models/resnet:predict

What images cost is bounded: [attacks](../attacks.md).""",
        [
            ok("rows", "picture", rows(f"[{IMAGE}]"), predictions(TWO_PIXELS), RULE, IMAGES),
            ok(
                "rows by name",
                "picture",
                rows(f'[{{"x": {IMAGE}}}, {{"x": {IMAGE}}}]'),
                predictions(f"{TWO_PIXELS}, {TWO_PIXELS}"),
                RULE,
                IMAGES,
            ),
            ok(
                "a column",
                "picture",
                columns(f'{{"x": {IMAGE}}}'),
                COLUMN,
                RULE,
                IMAGES,
            ),
            bad(
                "one that is broken",
                "picture",
                rows(f'[{IMAGE}, {{"b64": "aGk="}}]'),
                "image 1 (of 0 to 1) is no JPEG, PNG or WebP",
                RULE,
                IMAGES,
            ),
            bad(
                "an input that does not look like images",
                "matrix",
                rows(f"[{IMAGE}]"),
                "is not of expected type: float",
                "a b64 object is no number",
            ),
            Rest(
                id="a form",
                rule="the body must be JSON",
                target=TARGET,
                headers=FORM,
                body=HEAD + FILE + b"\r\n--x--\r\n",
                reply=predictions(TWO_PIXELS),
                deviation=FORMS,
            ),
            Rest(
                id="a form without an end",
                rule="the body must be JSON",
                target=TARGET,
                headers=FORM,
                body=HEAD + b"hi",
                code=400,
                phrase="the body is not the form that Content-Type announces",
                deviation=FORMS,
            ),
            Rest(
                id="a form that is not announced",
                rule="the body must be JSON",
                target=TARGET,
                body=HEAD + b"hi\r\n--x--\r\n",
                code=400,
                phrase="JSON Parse error: Invalid value. at offset: 1",
            ),
            Rpc(
                id="strings for images",
                rule="the dtype must match",
                request=predict("picture", x=_strings(FILE)),
                reply=predicted("picture", y=floats("3, 2, 1, 6, 5, 4", 1, 1, 2, 3)),
                deviation=IMAGES,
            ),
            Rpc(
                id="strings that are no images",
                rule="the dtype must match",
                request=predict("picture", x=_strings(FILE, b"hi")),
                code="INVALID_ARGUMENT",
                phrase='input "x": image 1 (of 0 to 1) is no JPEG, PNG or WebP',
                deviation=IMAGES,
            ),
        ],
    )
]
