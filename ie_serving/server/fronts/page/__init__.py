"""Recognises requests for the page at `/`. Pure; imported even if the page is never opened."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from ie_serving.server.fronts.rest.routes import Verb
from ie_serving.server.transport.http1.messages import RequestHead

FILES: Final[Mapping[bytes, str]] = {
    b"/": "index.html",
    **{
        f"/page/{name}".encode(): name
        for name in (
            "page.css",
            "icon.svg",
            "main.js",
            "ask.js",
            "body.js",
            "dom.js",
            "lists.js",
            "model.js",
            "numbers.js",
            "plot.js",
            "trial.js",
        )
    },
}
"""The files of the page, by path."""

FILE, STATE, CONFIGURATION, MODEL, PROGRAMS = (
    "page_file",
    "page_state",
    "page_configuration",
    "page_model",
    "page_programs",
)
"""Verbs of the page; `gate/rights.py` lists the right that each needs."""
_GET: Final[Mapping[bytes, str]] = {
    **dict.fromkeys(FILES, FILE),
    b"/page/state": STATE,
    b"/page/configuration": CONFIGURATION,
}
_MODELS: Final = b"/page/models/"
_POST: Final[Mapping[bytes, str]] = {b"/page/programs": PROGRAMS}


def asked(head: RequestHead) -> Verb | None:
    """Return verb and model of a request for the page; None for any other request."""
    path = head.path
    if head.method == "POST":
        verb = _POST.get(path)
        return (verb, "") if verb else None
    if head.method not in ("GET", "HEAD"):
        return None
    if path.startswith(_MODELS):
        return MODEL, unquote(path[len(_MODELS) :].decode("latin-1"))
    verb = _GET.get(path)
    return (verb, "") if verb else None
