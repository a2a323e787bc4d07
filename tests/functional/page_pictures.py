"""Takes the pictures of `docs/guide/page.md`; `make page` runs it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from PIL import Image

from tests.functional import page_models
from tests.functional.browser import PHONE, chromium, tab
from tests.functional.servers import ROOT, Server

PICTURES = ROOT / "docs" / "images"
COLOURS = 128
"""Of each picture: with as many, text is as sharp, and the file a third as large."""
SECONDS = 40
"""That the plots show."""


@contextmanager
def traffic(server: Server) -> Iterator[None]:
    """Send requests that come and go, a few of them wrong."""
    over = threading.Event()
    thread = threading.Thread(target=_send, args=(server.url, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _send(url: str, over: threading.Event) -> None:
    digits, ranker = {"instances": [[0.5] * 64]}, {"instances": [[1, 2, 3, 4]]}
    with httpx.Client(base_url=url, trust_env=False) as client:
        number = 0
        while not over.wait(0.002 + 0.0004 * abs(number % 400 - 200) / 10):
            number += 1
            client.post("/v1/models/digits:predict", json=digits)
            client.post("/v1/models/ranker:predict", json=ranker)
            if not number % 50:
                client.post("/v1/models/ranker:predict", json={"instances": [[1]]})
            if not number % 130:
                client.post("/v1/models/missing:predict", json=ranker)


def take(page: Any, name: str, height: int | None = None) -> None:
    """Take one picture, of the whole page or of its top."""
    path = PICTURES / f"page-{name}.png"
    clip = {"clip": {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}}
    page.screenshot(path=path, full_page=True, **(clip if height else {}))
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB")


def main() -> None:
    """Serve the models of the tests, and take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as root:
        config = page_models.write(Path(root))
        flags = (f"--config_path={config}", "--ready_after_seconds=0", "--host=127.0.0.1")
        with Server("ie_serving", "config", *flags) as server, chromium() as browser:
            server.ready()
            with traffic(server):
                _pictures(browser, server.url)


def _pictures(browser: Any, url: str) -> None:
    phone = {"viewport": PHONE, "color_scheme": "dark", "device_scale_factor": 1.5}
    with tab(browser, url) as page, tab(browser, url, **phone) as small:
        for _ in range(SECONDS):
            page.wait_for_timeout(1000)
        take(page, "models")
        take(small, "phone", 1100)
        page.get_by_role("link", name="digits").click()
        form = page.locator(".trial")
        form.get_by_role("button", name="Send").click()
        form.locator(".verdict", has_text="200 in").wait_for()
        page.locator(".programs code", has_text="curl --globoff").wait_for()
        take(page, "model", 1370)


if __name__ == "__main__":
    main()
