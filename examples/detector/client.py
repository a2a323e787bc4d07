"""Send a page, print the digits on it, and keep the page with boxes as found.png.

python client.py page.png [--url http://localhost:8000]
"""

import argparse
import base64
import json
import urllib.request
from pathlib import Path
from typing import Any


def read(url: str, page: bytes) -> Any:
    """Ask the graph: `digit` and `box` of each digit, and `page_bytes`."""
    body = json.dumps({"inputs": {"image": {"b64": base64.b64encode(page).decode()}}}).encode()
    with urllib.request.urlopen(f"{url}/v1/models/read_page:predict", body, timeout=10) as reply:
        return json.load(reply)["outputs"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--url", default="http://localhost:8000")
    given = parser.parse_args()
    found = read(given.url, given.page.read_bytes())
    for (digit,), (left, top, _, _) in zip(found["digit"], found["box"], strict=True):
        print(f"{digit} at {left:.0%} from the left, {top:.0%} from the top".replace("%", " %"))
    Path("found.png").write_bytes(base64.b64decode(found["page_bytes"]["b64"]))


if __name__ == "__main__":
    main()
