"""Parses the path of a REST request of the Open Inference Protocol v2. Pure; the gate uses it, too.

`fronts/admin/health.py` answers probes of the server and of models; their paths are there and not
here.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from ie_serving.server.fronts.admin.health import LIVE, STARTUP, model_asked
from ie_serving.server.fronts.admin.health import READY as HEALTH_READY
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
CONFIG: Final = "model_config"
LOG_SETTINGS: Final = "log_settings"
CHANGE_LOG: Final = "change_log_settings"
TRACE_SETTINGS: Final = "trace_settings"
CHANGE_TRACES: Final = "change_trace_settings"
GENERATE: Final = "generate"
REGIONS: Final = "regions"
REGISTER: Final = "register_region"
UNREGISTER: Final = "unregister_region"
CUDA: Final = "cuda_shared_memory"
CUDA_REGIONS: Final = "cuda_regions"
CUDA_UNREGISTER: Final = "unregister_cuda_region"
UNKNOWN: Final = "unknown"
"""No path of the protocol."""
PREFLIGHT: Final = "preflight"
"""Request of a browser before it sends a request for a page of another origin (CORS)."""
WRONG_METHOD: Final = "wrong_method"
ANY: Final = "any"
"""Stands for every method."""

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
    CONFIG: ("GET", "metadata"),
    LOG_SETTINGS: ("GET", "log_level"),
    CHANGE_LOG: ("POST", "set_log_level"),
    TRACE_SETTINGS: ("GET", "log_level"),
    CHANGE_TRACES: ("POST", "set_log_level"),
    GENERATE: ("POST", "nothing"),
    REGIONS: ("GET", "models"),
    REGISTER: ("POST", "reload"),
    UNREGISTER: ("POST", "reload"),
    CUDA: (ANY, "nothing"),
    CUDA_REGIONS: ("GET", "models"),
    CUDA_UNREGISTER: ("POST", "reload"),
    UNKNOWN: (ANY, "nothing"),
    PREFLIGHT: ("OPTIONS", "preflight"),
    WRONG_METHOD: ("", "nothing"),
}
"""HTTP method of each route, where HEAD is allowed wherever GET is; and a verb of `gate/rights.py`
that needs the same right."""

BY_POST: Final[Mapping[str, str]] = {LOG_SETTINGS: CHANGE_LOG, TRACE_SETTINGS: CHANGE_TRACES}
"""Routes that show by GET and change by POST."""

PREFIX: Final = b"/v2"
BELOW: Final = b"/v2/"
LONGEST_REMEMBERED: Final = 256
"""Longest path in bytes that is cached, so that unauthenticated paths cannot fill the memory."""

_MODEL: Final = re.compile(
    rb"/v2/models/([^/]+)(?:/versions/([^/]+))?(?:/(infer|ready|stats|config|generate)(?:_stream)?)?/?"
)
_OF_MODEL: Final = {
    None: METADATA,
    b"infer": INFER,
    b"ready": READY,
    b"stats": STATS,
    b"config": CONFIG,
    b"generate": GENERATE,
}
_TRACE: Final = re.compile(rb"/v2(?:/models/([^/]+))?/trace/setting/?")
_REGION: Final = re.compile(
    rb"/v2/systemsharedmemory(?:/region/([^/]+))?/(status|register|unregister)/?"
)
_OF_REGION: Final = {b"status": REGIONS, b"register": REGISTER, b"unregister": UNREGISTER}
_CUDA: Final = re.compile(
    rb"/v2/cudasharedmemory(?:(?:/region/([^/]+))?/(status|unregister)/?|(?:/.*)?)"
)
_OF_CUDA: Final = {b"status": CUDA_REGIONS, b"unregister": CUDA_UNREGISTER, None: CUDA}
_PROBES: Final = {each.encode() for each in (LIVE, HEALTH_READY, STARTUP)}
_REPOSITORY: Final = re.compile(rb"/v2/repository/models/([^/]+)/(load|unload)/?")
_FIXED: Final = {
    b"/v2": SERVER,
    b"/v2/": SERVER,
    b"/v2/models/stats": ALL_STATS,
    b"/v2/models/stats/": ALL_STATS,
    b"/v2/repository/index": INDEX,
    b"/v2/repository/index/": INDEX,
    b"/v2/logging": LOG_SETTINGS,
    b"/v2/logging/": LOG_SETTINGS,
}


class ParsedPath(NamedTuple):
    """The parsed path of a request.

    Attributes:
        verb: one of those above.
        model: name of the model; empty if none is named.
        version: a number or a label; empty for the default.
        allowed: methods that the path has, if the request uses another one.
        region: name of a region of shared memory; empty if none is named.
    """

    verb: str
    model: str = ""
    version: str = ""
    allowed: str = ""
    region: str = ""


def asked(head: RequestHead) -> ParsedPath | None:
    """Parse a request's path; None if the path is not of the protocol."""
    path = head.path
    if path != PREFIX and not path.startswith(BELOW):
        return None
    return (_remembered if len(path) <= LONGEST_REMEMBERED else _read)(head.method, path)


def _read(method: str, path: bytes) -> ParsedPath | None:
    found = _parsed(path)
    if found is None:
        return None
    needed, _ = VERBS[found.verb]
    if method == "POST" and found.verb in BY_POST:
        return found._replace(verb=BY_POST[found.verb])
    if needed in (ANY, method) or (method == "HEAD" and needed == "GET"):
        return found
    if method == "OPTIONS":
        return ParsedPath(PREFLIGHT)
    return ParsedPath(WRONG_METHOD, found.model, allowed=needed)


_remembered = lru_cache(maxsize=1024)(_read)


def _parsed(path: bytes) -> ParsedPath | None:
    if verb := _FIXED.get(path):
        return ParsedPath(verb)
    if of_model := _MODEL.fullmatch(path):
        name, version, word = of_model.groups()
        if word == b"ready" and model_asked(path):
            return None
        return ParsedPath(_OF_MODEL[word], _text(name), _text(version or b""))
    if of_repository := _REPOSITORY.fullmatch(path):
        return ParsedPath(of_repository[2].decode(), _text(of_repository[1]))
    if of_traces := _TRACE.fullmatch(path):
        return ParsedPath(TRACE_SETTINGS, _text(of_traces[1] or b""))
    of_region = _REGION.fullmatch(path)
    if of_region and (of_region[1] or of_region[2] != b"register"):
        return ParsedPath(_OF_REGION[of_region[2]], region=_text(of_region[1] or b""))
    if of_cuda := _CUDA.fullmatch(path):
        return ParsedPath(_OF_CUDA[of_cuda[2]], region=_text(of_cuda[1] or b""))
    return None if path in _PROBES else ParsedPath(UNKNOWN)


def _text(part: bytes) -> str:
    return unquote_to_bytes(part).decode("utf-8", "replace")


def verb_of(found: ParsedPath) -> tuple[str, str]:
    """Return the verb and the model of a request for the gate."""
    return VERBS[found.verb][1], found.model
