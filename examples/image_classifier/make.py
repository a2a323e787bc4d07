"""Make the model `resnet` of this example, and a picture to ask it about.

    python make.py        (needs openvino and pillow, which the server brings)

The network is version 2 of the sample `digits`. In front of it stands an input of 8 x 8 grey
pixels, 0 for black and 255 for white, in the place of the sample's 64 numbers. The tensors have the
names that clients of TensorFlow Serving's ResNet tutorial use:

    image_bytes    float32 (-1, 8, 8, 1)   pixels, or an encoded image of any size
    probabilities  float32 (-1, 10)        one for each digit
    classes        int64   (-1)            the most probable digit
"""

import json
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from PIL import Image

EXAMPLES = Path(__file__).resolve().parent.parent
WHITE, INK = 255, 16
SIDE = 160
"""Of the picture, in pixels."""
THREE = 12
"""Place of a three among the held-out images."""


def model() -> ov.Model:
    """Put the input of pixels in front of the sample's network."""
    sample = ov.Core().read_model(EXAMPLES / "models" / "digits" / "2" / "model.xml")
    pixels = ops.parameter([-1, 8, 8, 1], np.float32, name="image_bytes")
    pixels.output(0).set_names({"image_bytes"})
    darkness = ops.subtract(np.float32(WHITE), pixels)
    ink = ops.multiply(darkness, np.float32(INK / WHITE))
    sample.input("image").replace(ops.reshape(ink, np.int64([-1, 64]), False).output(0))
    probabilities, digit = (each.get_node().input_value(0) for each in sample.outputs)
    classes = ops.convert(digit, np.int64).output(0)
    probabilities.set_names({"probabilities"})
    classes.set_names({"classes"})
    return ov.Model([probabilities, classes], [pixels], "digits of pictures")


def picture(ink: list[int]) -> Image.Image:
    """Draw an image of the sample, black on white, as large squares."""
    grey = WHITE - np.array(ink).reshape(8, 8) * WHITE // INK
    return Image.fromarray(grey.astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.NEAREST)


def main() -> None:
    """Write `models/resnet/1` and `three.jpg`."""
    ov.save_model(model(), "models/resnet/1/model.xml", compress_to_fp16=False)
    held_out = json.loads((EXAMPLES / "digits" / "held_out.json").read_text())
    assert held_out["digit"][THREE] == 3
    picture(held_out["image"][THREE]).save("three.jpg", quality=95)


if __name__ == "__main__":
    main()
