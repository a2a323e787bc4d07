"""Ask the Keras model about texts, over REST.

python client.py "a funny film" "what a boring, boring book!" [--url http://localhost:8000]
"""

import argparse
import json
import urllib.request


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--url", default="http://localhost:8000")
    given = parser.parse_args()
    body = json.dumps({"instances": given.texts}).encode()
    with urllib.request.urlopen(f"{given.url}/v1/models/reviews:predict", body, timeout=10) as got:
        predictions = json.load(got)["predictions"]
    for text, (praise,) in zip(given.texts, predictions, strict=True):
        print(f"{praise:4.0%} praise: {text}")


if __name__ == "__main__":
    main()
