"""Ask the sample model over REST, with nothing but Python's standard library.

python examples/digits/client_rest.py [--url http://localhost:8000] [--images 10]
"""

import argparse
import json
import urllib.request
from pathlib import Path

HELD_OUT = Path(__file__).parent / "held_out.json"


def predict(url: str, images: list[list[int]]) -> list[int]:
    """Send all images in one request, column by column, and return the digits."""
    body = json.dumps({"inputs": {"image": images}}).encode()
    address = f"{url}/v1/models/digits:predict"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        digits: list[int] = json.load(reply)["outputs"]["digit"]
    return digits


def main() -> None:
    """Print the predicted digit beside the true one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--images", type=int, default=10)
    given = parser.parse_args()
    held_out = json.loads(HELD_OUT.read_text())
    predicted = predict(given.url, held_out["image"][: given.images])
    for guess, truth in zip(predicted, held_out["digit"], strict=False):
        print(f"predicted {guess}, true {truth}{'' if guess == truth else '  <- wrong'}")


if __name__ == "__main__":
    main()
