"""Recognises requests for the OpenAPI document and its viewer. Pure; imported at the start."""

from collections.abc import Mapping
from typing import Final

from ie_serving.server.fronts.page import FILE
from ie_serving.server.fronts.rest.routes import Verb
from ie_serving.server.transport.http1.messages import RequestHead

DOCUMENT: Final = "openapi"
"""Verb of `gate/rights.py`. The viewer's files are the same on every server, as the page's are."""
PATH: Final = b"/openapi.json"
VIEWER: Final[Mapping[bytes, str]] = {
    b"/docs": "index.html",
    b"/docs/docs.js": "docs.js",
    b"/docs/swagger-ui.css": "swagger-ui.css",
    b"/docs/swagger-ui-bundle.js": "swagger-ui-bundle.js",
}
"""The files of the viewer, by path."""


def asked(head: RequestHead) -> Verb | None:
    """Return the verb of a request for the document or its viewer; None for any other request."""
    if head.method not in ("GET", "HEAD"):
        return None
    if head.path == PATH:
        return DOCUMENT, ""
    return (FILE, "") if head.path in VIEWER else None


def asked_for_document(head: RequestHead) -> Verb | None:
    """As `asked`, without the viewer."""
    found = asked(head)
    return found if found == (DOCUMENT, "") else None
