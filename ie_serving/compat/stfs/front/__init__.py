"""Routes of simple_tensorflow_serving; TensorFlow Serving's front answers all others.

Source: its documentation and code, version 0.8.2.
"""

from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.tfs.rest_routes import GENERATED, Route, route, target_of
from ie_serving.server.transport.http1.messages import RequestHead

ASK, ALIVE, PAGE = "ask", "alive", "page"
"""Verbs that this front alone has."""
MODELS, MODEL = "models", "status"
"""Verbs that TensorFlow Serving's front has as well, and answers otherwise."""

RIGHTS_OF: Final[Mapping[str, str]] = {PAGE: MODELS}
"""Verbs that need what another one needs."""

_FIXED: Final[Mapping[tuple[str, bytes], str]] = {
    ("POST", b"/"): ASK,
    ("GET", b"/"): PAGE,
    ("OPTIONS", b"/"): "preflight",
    ("GET", b"/health"): ALIVE,
}


def asked(head: RequestHead) -> Route | None:
    """Read the route of a request to this front; None for any other request."""
    method = "GET" if head.method == "HEAD" else head.method
    fixed = _FIXED.get((method, head.path))
    if fixed is not None:
        return Route(fixed, ModelSpec(""))
    if method != "GET":
        return None
    try:
        found = route(method, target_of(head.path, head.query))
    except InvalidRequest:
        return None
    of_one = found.verb == MODEL and found.model == ModelSpec(found.model.name)
    return found if of_one or found.verb in (MODELS, *GENERATED) else None


def verb_of(found: Route) -> tuple[str, str]:
    """Tell the gate the verb and the model of a route."""
    return RIGHTS_OF.get(found.verb, found.verb), found.model.name
