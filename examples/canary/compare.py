"""Ask both labels of the model about all held-out images, and count the right answers.

python compare.py [--url http://localhost:8000]
"""

import argparse
import json
import urllib.request
from pathlib import Path

HELD_OUT = Path(__file__).resolve().parent.parent / "digits" / "held_out.json"


def predict(url: str, label: str, images: list[list[int]]) -> list[int]:
    """Ask the version that has this label."""
    body = json.dumps({"inputs": {"image": images}}).encode()
    address = f"{url}/v1/models/digits/labels/{label}:predict"
    with urllib.request.urlopen(address, body, timeout=10) as reply:
        digits: list[int] = json.load(reply)["outputs"]["digit"]
    return digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", default="http://localhost:8000")
    given = parser.parse_args()
    held_out = json.loads(HELD_OUT.read_text())
    for label in ("stable", "canary"):
        found = predict(given.url, label, held_out["image"])
        right = sum(a == b for a, b in zip(found, held_out["digit"], strict=True))
        print(f"{label}: {right} of {len(found)} right")


if __name__ == "__main__":
    main()
