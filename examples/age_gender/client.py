"""Send a face over REST as OpenVINO Model Server's demo of age and gender does.

    python client.py face.png [--rest_address localhost --rest_port 8000]

Needs `pip install pillow numpy`.
"""

import argparse
import json
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 62


def pixels(picture: Path) -> list[object]:
    """Give a picture as the model takes it: one face, planes of blue, green and red."""
    with Image.open(picture) as opened:
        rgb = np.asarray(opened.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    values: list[object] = rgb[:, :, ::-1].transpose(2, 0, 1)[None].tolist()
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--rest_address", default="localhost")
    parser.add_argument("--rest_port", type=int, default=8000)
    given = parser.parse_args()
    body = json.dumps({"inputs": pixels(given.picture)}).encode()
    url = f"http://{given.rest_address}:{given.rest_port}/v1/models/age_gender:predict"
    with urllib.request.urlopen(url, body, timeout=10) as reply:
        outputs = json.load(reply)["outputs"]
    age = 100 * np.array(outputs["age_conv3"]).item()
    female, male = np.array(outputs["prob"]).ravel()
    print(f"{age:.0f} years, female {female:.2f}, male {male:.2f}")


if __name__ == "__main__":
    main()
