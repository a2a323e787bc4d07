"""Draw a page of handwritten digits, out of the held-out images of the sample.

    python make.py        (needs numpy and pillow, which the server brings)

It writes `page.png`.
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image

HELD_OUT = Path(__file__).resolve().parent.parent / "digits" / "held_out.json"
WHITE, INK = 255, 16
SIDE, PLACES = 96, [(30, 40), (190, 20), (330, 60), (90, 190), (280, 200)]
"""Pixels of a digit's side, and of the left upper corner of each digit."""
FIRST = 12


def main() -> None:
    images = json.loads(HELD_OUT.read_text())["image"][FIRST:]
    page = Image.new("L", (460, 320), WHITE)
    for place, ink in zip(PLACES, images, strict=False):
        grey = WHITE - np.array(ink).reshape(8, 8) * WHITE // INK
        digit = Image.fromarray(grey.astype(np.uint8))
        page.paste(digit.resize((SIDE, SIDE), Image.Resampling.BICUBIC), place)
    page.save("page.png", optimize=True)


if __name__ == "__main__":
    main()
