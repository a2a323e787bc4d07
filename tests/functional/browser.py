"""Debian's Chromium for tests of the page, driven by Playwright; one start for all tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or ""
FLAGS = (
    "--no-sandbox",  # it does not start as root without, and sees this server alone
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, PHONE = {"width": 1200, "height": 800}, {"width": 360, "height": 740}
PATIENCE_MS = 10_000.0
"""Bound of one wait in the browser; the page itself looks every two seconds."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """Open `url` in a tab without a past, and fail for an error of a script or of the policy."""
    with browser.new_context(**{"viewport": WIDE, **options}) as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if is_fault(line) else None)
        page.goto(url)
        yield page
        assert errors == []


def is_fault(line: Any) -> bool:
    # It also logs each reply that is no success: those are what some tests look for.
    return line.type == "error" and not line.text.startswith("Failed to load resource")


def photograph(page: Any, path: Path, **options: Any) -> None:
    """Take a picture of what is seen."""
    page.screenshot(path=path, **options)
