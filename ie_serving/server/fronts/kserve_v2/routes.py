"""Parses the path of a REST request of the Open Inference Protocol v2. Pure; the gate uses it, too.

`fronts/admin/health.py` answers probes of the server and of models; their paths are there and not
here.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from ie_serving.server.fronts.admin.health import model_asked
from ie_serving.server.transport.http1.messages import RequestHead

INFER: Final = "infer"
METADATA: Final = "metadata"
READY: Final = "ready"
SERVER: Final = "server"
INDEX: Final = "index"
LOAD: Final = "load"
UNLOAD: Final = "unload"
STATS: Final = "stats"
ALL_STATS: Final = "all_stats"
PREFLIGHT: Final = "preflight"
"""Request of a browser before it sends a request for a page of another origin (CORS)."""
WRONG_METHOD: Final = "wrong_method"

VERBS: Final[Mapping[str, tuple[str, str]]] = {
    INFER: ("POST", "predict"),
    METADATA: ("GET", "metadata"),
    READY: ("GET", "status"),
    SERVER: ("GET", "server"),
    INDEX: ("POST", "config"),
    LOAD: ("POST", "poll"),
    UNLOAD: ("POST", "poll"),
    STATS: ("GET", "status"),
    ALL_STATS: ("GET", "models"),
    PREFLIGHT: ("OPTIONS", "preflight"),
    WRONG_METHOD: ("", "nothing"),
}
"""HTTP method of each route, where HEAD is allowed wherever GET is; and a verb of `gate/rights.py`
that needs the same right."""

PREFIX: Final = b"/v2"
LONGEST_REMEMBERED: Final = 256
"""Longest path in bytes that is cached, so that unauthenticated paths cannot fill the memory."""

_MODEL: Final = re.compile(rb"/v2/models/([^/]+)(?:/versions/([^/]+))?(?:/(infer|ready|stats))?/?")
_REPOSITORY: Final = re.compile(rb"/v2/repository/models/([^/]+)/(load|unload)/?")
_FIXED: Final = {
    b"/v2": SERVER,
    b"/v2/": SERVER,
    b"/v2/models/stats": ALL_STATS,
    b"/v2/models/stats/": ALL_STATS,
    b"/v2/repository/index": INDEX,
    b"/v2/repository/index/": INDEX,
}


class Asked(NamedTuple):
    """The parsed path of a request.

    Attributes:
        verb: one of those above.
        model: name of the model; empty if none is named.
        version: a number or a label; empty for the default.
        allowed: methods that the path has, if the request uses another one.
    """

    verb: str
    model: str = ""
    version: str = ""
    allowed: str = ""


def asked(head: RequestHead) -> Asked | None:
    """Parse a request's path; None if the path is not of the protocol."""
    path = head.path
    if not path.startswith(PREFIX):
        return None
    return (_remembered if len(path) <= LONGEST_REMEMBERED else _read)(head.method, path)


def _read(method: str, path: bytes) -> Asked | None:
    found = _found(path)
    if found is None:
        return None
    needed, _ = VERBS[found.verb]
    if method == needed or (method == "HEAD" and needed == "GET"):
        return found
    if method == "OPTIONS":
        return Asked(PREFLIGHT)
    return Asked(WRONG_METHOD, found.model, allowed=needed)


_remembered = lru_cache(maxsize=1024)(_read)


def _found(path: bytes) -> Asked | None:
    if verb := _FIXED.get(path):
        return Asked(verb)
    if of_model := _MODEL.fullmatch(path):
        name, version, word = of_model.groups()
        if word == b"ready" and model_asked(path):
            return None
        return Asked((word or METADATA.encode()).decode(), _text(name), _text(version or b""))
    if of_repository := _REPOSITORY.fullmatch(path):
        return Asked(of_repository[2].decode(), _text(of_repository[1]))
    return None


def _text(part: bytes) -> str:
    return unquote_to_bytes(part).decode("utf-8", "replace")


def verb_of(found: Asked) -> tuple[str, str]:
    """Return the verb and the model of a request for the gate."""
    return VERBS[found.verb][1], found.model
