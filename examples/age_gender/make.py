"""Make a stand-in for Open Model Zoo's `age-gender-recognition-retail-0013`, and draw a face.

    python make.py        (needs openvino and pillow, which the server brings)

The stand-in has the inputs and outputs of that model, but its answers mean nothing: the age is the
picture's brightness, and the probabilities come from its colours.

    data       float32 (1, 3, 62, 62)   one face; planes of blue, green and red
    age_conv3  float32 (1, 1, 1, 1)     the age divided by 100
    prob       float32 (1, 2, 1, 1)     female, male
"""

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from PIL import Image, ImageDraw

SIDE = 62
"""Of the input, in pixels."""


def model() -> ov.Model:
    data = ops.parameter([1, 3, SIDE, SIDE], np.float32, name="data")
    colours = ops.reduce_mean(ops.divide(data, np.float32(255)), np.int64([2, 3]), True)
    age = ops.reduce_mean(colours, np.int64([1]), True)
    prob = ops.softmax(ops.gather(colours, np.int64([0, 2]), np.int64(1)), 1)
    for tensor, name in ((data, "data"), (age, "age_conv3"), (prob, "prob")):
        tensor.output(0).set_names({name})
    return ov.Model([age, prob], [data], "age_gender")


def face() -> Image.Image:
    picture = Image.new("RGB", (4 * SIDE, 4 * SIDE), "#20303c")
    draw = ImageDraw.Draw(picture)
    draw.ellipse((34, 14, 214, 240), "#b58a66")
    for left in (75, 145):
        draw.ellipse((left, 90, left + 26, 116), "#202020")
    draw.arc((80, 110, 168, 190), 20, 160, "#803030", 8)
    return picture


def main() -> None:
    ov.save_model(model(), "models/age_gender/1/model.xml", compress_to_fp16=False)
    face().save("face.png", optimize=True)


if __name__ == "__main__":
    main()
