"""Send a picture over REST as clients of TensorFlow Serving's ResNet tutorial do.

python client_rest.py three.jpg [--url http://localhost:8000]
"""

import argparse
import base64
import json
import urllib.request
from pathlib import Path


def predict(url: str, picture: bytes) -> dict[str, list[float]]:
    """Ask the model `resnet` for one picture; the answer has `classes` and `probabilities`."""
    body = json.dumps({"instances": [{"b64": base64.b64encode(picture).decode()}]}).encode()
    with urllib.request.urlopen(f"{url}/v1/models/resnet:predict", body, timeout=10) as reply:
        prediction: dict[str, list[float]] = json.load(reply)["predictions"][0]
    return prediction


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--url", default="http://localhost:8000")
    given = parser.parse_args()
    prediction = predict(given.url, given.picture.read_bytes())
    print(f"class {prediction['classes']}, probability {max(prediction['probabilities']):.2f}")


if __name__ == "__main__":
    main()
