"""The built-in steps of graphs by name: `use: NAME`, with the options in `with`.

To add a step, write its function and add a row to `TABLE`.
"""

from collections.abc import Mapping

from ie_serving.core.values.tensors import DataType, tensor
from ie_serving.engines.steps import boxes, declaration, images, texts, watching
from ie_serving.engines.steps.declaration import ANY, NUMBERS, BuiltInStep, StepInput

MOST_SIZE = 16_384
"""Most rows or columns of a picture that a step makes; larger sizes are refused."""

ENCODED = StepInput(dtype=DataType.STRING)
# Encoded by default; or pixels, of dtypes that float32, used for resizing, holds exactly.
PIXELS = (DataType.UINT8, DataType.UINT16, DataType.FP16, DataType.FP32)
IMAGE = StepInput(dtype=DataType.STRING, also=PIXELS)
BOXES = StepInput(shape=(-1, 4), also=(DataType.FP64, DataType.FP16))
SCORES = StepInput(shape=None)
TEXTS = StepInput(dtype=DataType.STRING, shape=(-1,))
OF_ANY_KIND = StepInput(also=ANY)

SIZE = {"height": declaration.whole(1, MOST_SIZE), "width": declaration.whole(1, MOST_SIZE)}
FIT = declaration.word(images.STRETCH, images.CROP, images.PAD, default=images.STRETCH)
COLOURS = declaration.word(*images.COLOURS, default="RGB")
CHOICE = {
    "threshold": declaration.real(0, 1, 0.5),
    "overlap": declaration.real(0, 1, 0.5),
    "most": declaration.whole(1, 1000, 100),
    "labels": declaration.labels(),
}

TABLE: Mapping[str, BuiltInStep] = {
    "decode_image": BuiltInStep(
        about="Decodes one JPEG, PNG or WebP.",
        run=images.decode_image,
        inputs={"image": ENCODED},
        outputs=lambda _inputs, *, colors: {
            "pixels": tensor("pixels", DataType.UINT8, -1, -1, 1 if colors == "GREY" else 3),
            "height": tensor("height", DataType.INT64),
            "width": tensor("width", DataType.INT64),
        },
        options={"colors": COLOURS},
        decodes=True,
    ),
    "resize": BuiltInStep(
        about="Gives one picture another size, bilinear.",
        run=images.resize,
        inputs={"image": IMAGE},
        outputs=images.resize_specs,
        options={**SIZE, "fit": FIT},
        decodes=True,
    ),
    "image_to_tensor": BuiltInStep(
        about="Makes the input of a model of pictures, one or several of any size.",
        run=images.image_to_tensor,
        inputs={"image": IMAGE},
        outputs=images.tensor_specs,
        options={
            **SIZE,
            "layout": declaration.word("NCHW", "NHWC", default="NCHW"),
            "colors": COLOURS,
            "dtype": declaration.word("float", "uint8", default="float"),
            "fit": FIT,
            "mean": declaration.numbers((1, 3), (0.0,)),
            "scale": declaration.numbers((1, 3), (1.0,)),
        },
        checks=images.wrong_together,
        decodes=True,
    ),
    "crop": BuiltInStep(
        about="Cuts boxes out of one picture, all in one size.",
        run=images.crop,
        inputs={"image": IMAGE, "boxes": BOXES},
        outputs=images.crop_specs,
        options={**SIZE, "margin": declaration.real(0, 1, 0.0)},
        decodes=True,
    ),
    "draw": BuiltInStep(
        about="Draws boxes, with their labels and scores, on one picture.",
        run=images.draw,
        inputs={
            "image": IMAGE,
            "boxes": BOXES,
            "labels": StepInput(dtype=DataType.STRING, optional=True),
            "scores": StepInput(also=NUMBERS, optional=True),
        },
        outputs=images.draw_specs,
        options={
            "format": declaration.word("png", "jpeg", images.PIXELS, default="png"),
            "line": declaration.whole(1, 100, 2),
        },
        decodes=True,
    ),
    "ssd_boxes": BuiltInStep(
        about="Makes boxes of an SSD's output for one picture.",
        run=boxes.ssd_boxes,
        inputs={"detections": StepInput()},
        instead={"boxes": StepInput(), "scores": SCORES, "classes": StepInput()},
        outputs=boxes.LIST,
        options={**CHOICE, "overlap": declaration.real(0, 1, 1.0)},
    ),
    "yolo_boxes": BuiltInStep(
        about="Makes boxes of a YOLO's output for one picture, without those that overlap.",
        run=boxes.yolo_boxes,
        inputs={"output": StepInput()},
        outputs=boxes.LIST,
        options={
            "form": declaration.word("v8", "v5", "grid", default="v8"),
            "height": declaration.whole(1, MOST_SIZE, 640),
            "width": declaration.whole(1, MOST_SIZE, 640),
            "anchors": declaration.pairs("a list of [width, height], in cells"),
            **CHOICE,
        },
        checks=boxes.wrong_anchors,
    ),
    "filter_boxes": BuiltInStep(
        about="Chooses boxes by label and score.",
        run=boxes.filter_boxes,
        inputs={
            "boxes": BOXES,
            "scores": StepInput(shape=(-1,)),
            "classes": StepInput(dtype=DataType.INT64, shape=(-1,)),
            "labels": TEXTS,
        },
        outputs=boxes.LIST,
        options={
            "threshold": declaration.real(0, 1, 0.0),
            "keep": declaration.names('a list of labels, such as ["person"]'),
            "most": declaration.whole(1, 1000, 100),
        },
    ),
    "classifier_output": BuiltInStep(
        about="Gives the best classes of each row, with names and probabilities.",
        run=texts.classifier_output,
        inputs={"probs": StepInput(also=(DataType.FP64, DataType.FP16))},
        outputs=texts.classifier_specs,
        options={
            "labels": declaration.labels(),
            "top_n": declaration.whole(1, 1000, 1),
            "softmax": declaration.flag(False),
        },
    ),
    "regression_output": BuiltInStep(
        about="Gives columns by name.",
        run=texts.regression_output,
        inputs={"values": StepInput(also=NUMBERS)},
        outputs=texts.regression_specs,
        options={"names": declaration.columns('columns by name, such as {"price": 0}')},
    ),
    "json": BuiltInStep(
        about="Writes tensors as one JSON object.",
        run=texts.to_json,
        rest=OF_ANY_KIND,
        outputs=texts.TEXT,
        options={"indent": declaration.whole(0, 8, 0)},
    ),
    "template": BuiltInStep(
        about="Fills tensors into a text.",
        run=texts.template,
        rest=OF_ANY_KIND,
        outputs=texts.TEXT,
        options={"text": declaration.text('a text such as "{label}: {prob:.2f}"')},
        checks=texts.wrong_template,
    ),
    "log": BuiltInStep(
        about="Writes what passes to the log, and gives it on.",
        run=watching.log_step,
        rest=OF_ANY_KIND,
        outputs=watching.same,
        options={
            "level": declaration.word(*watching.LEVELS, default="info"),
            "show": declaration.word("keys", "values", default="values"),
            "keys": declaration.pattern(".*"),
        },
        named=True,
    ),
    "metrics": BuiltInStep(
        about="Counts what passes for the page of metrics, and gives it on.",
        run=watching.metrics_step,
        rest=OF_ANY_KIND,
        outputs=watching.same,
        named=True,
        watches=True,
    ),
}
