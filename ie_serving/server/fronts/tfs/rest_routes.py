"""Parses the target of a REST request. Pure.

Source: the regular expressions and the dispatch of TensorFlow Serving's HTTP handler. The whole
target, query included, must match without regard to case; then the last word is compared with
regard to case.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from urllib.parse import unquote

from ie_serving.core.values.errors import InvalidRequest, NotFound, advised
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.admin.config_pages import DETAILS, RELOAD, STATUS
from ie_serving.server.fronts.admin.health import LIVE, READY, STARTUP, model_asked
from ie_serving.server.fronts.admin.log_pages import LOG_LEVEL
from ie_serving.server.fronts.rest.routes import VerbOf
from ie_serving.server.transport.http1.messages import RequestHead

MODELS = "/v1/models"

_ALL = {MODELS: "models", STATUS: "config", LOG_LEVEL: "log_level", DETAILS: "all_details"}
"""Verbs of requests about all models, by target."""
_CHOICE = r"(?:/versions/(\d+)|/labels/([^/:]+))?"
_POST = re.compile(
    rf"{MODELS}/([^/:]+){_CHOICE}:(classify|regress|predict|invoke|poll|labels)",
    re.IGNORECASE | re.ASCII,
)
_STREAM = re.compile(rf"{MODELS}/([^/:]+){_CHOICE}:(stream)", re.IGNORECASE | re.ASCII)
_GET = re.compile(
    rf"{MODELS}(?:/([^/:]+))?{_CHOICE}(?:/(metadata|details|gen_(?:json|client)(?:\?(.*))?))?",
    re.IGNORECASE | re.ASCII,
)

GENERATED = ("gen_json", "gen_client")
"""Verbs that generate samples for people who write clients (`client_samples.py`)."""
_OF_A_MODEL = ("metadata", "details", *GENERATED)
"""Words that may follow a model in the target of a GET."""

LONGEST_REMEMBERED = 256
"""Longest target in characters that is cached, so that unknown clients cannot fill the memory."""

ALLOWED = "GET, HEAD, POST, OPTIONS"
"""Methods of the API, as the header `allow` lists them."""

PING = "/ping"
"""Amazon SageMaker's health check of a container, beside `/invocations` (`fronts/sagemaker`)."""
NOTHING = "nothing"
"""Verb of a request in `/v1/` that matches no route; `RestApi` then refuses it by `route`."""


class UnknownMethod(InvalidRequest):
    """An HTTP method that no target of the API accepts."""


class VersionOverflow(InvalidRequest):
    """A version beyond 64 bits, which TensorFlow Serving answers without a body."""


@dataclass(frozen=True, slots=True)
class Route:
    """The parsed target of a request.

    Attributes:
        verb: `predict`, `classify`, `regress`, `invoke`, `poll`, `status` or `metadata`; `models`
            for the list; `config` for all of them with their states, as in OpenVINO Model Server;
            `gen_json` and `gen_client`, as in simple_tensorflow_serving. `invoke`, `poll`,
            `stream`, `labels`, `details` and `all_details` are ours. TensorFlow Serving has no
            such routes.
        model: the servable.
        query: query of `gen_json` and `gen_client`, the only verbs with a query.
    """

    verb: str
    model: ModelSpec
    query: str = ""


def route(method: str, target: str) -> Route:
    """Parse a method and a target below `/v1/`. Cached, since clients repeat their targets.

    Raises:
        InvalidRequest: `Malformed request: ...`, or the model's name is missing.
        UnknownMethod: no target accepts the method.
        VersionOverflow: the version does not fit 64 bits.
    """
    return (
        _remembered(method, target) if len(target) <= LONGEST_REMEMBERED else _read(method, target)
    )


def _read(method: str, target: str) -> Route:
    if method == "POST":
        return _post(target)
    if method in ("GET", "HEAD"):  # the transport omits the body of a reply to HEAD
        return _get(target)
    raise UnknownMethod(f"Malformed request: {method} {target}")


_remembered = lru_cache(maxsize=1024)(_read)


def target_of(path: bytes, query: bytes) -> str:
    """Join path and query as received."""
    return (b"%b?%b" % (path, query) if query else path).decode("latin-1")


def posted(path: bytes, query: bytes) -> Route | None:
    """Parse the target of a POST; None if it does not run a model."""
    try:
        return _post(target_of(path, query))
    except InvalidRequest:
        return None


remembered_post = lru_cache(maxsize=1024)(posted)
"""`posted` for targets of at most `LONGEST_REMEMBERED` bytes."""


def wanting(metrics_paths: Sequence[str]) -> VerbOf:
    """Return a function that gives a request's verb, and the model that it names, if any.

    The function tries routes in the order of `RestApi`, and recognises pages outside of the API by
    path. It raises NotFound for a path outside of the API that is no page.
    """
    pages = page_verbs(metrics_paths)
    return partial(_right_and_model, pages=pages)


def page_verbs(metrics_paths: Sequence[str]) -> Mapping[bytes, str]:
    """Return the verb of each page outside of the API, by path."""
    # Metrics last: at a path of health they replace it, as in `rest_pages.fixed_pages`.
    health = {path.encode(): "health" for path in (LIVE, READY, STARTUP, PING)}
    return {**health, **{path.encode(): "metrics" for path in metrics_paths}}


def _right_and_model(head: RequestHead, pages: Mapping[bytes, str]) -> tuple[str, str]:
    if head.method == "POST":
        # `posted` is called without its cache: the gate itself caches its decisions by target.
        asked = posted(head.path, head.query)
        if asked:
            return asked.verb, asked.model.name
    target = target_of(head.path, head.query)
    if head.method == "POST" and target.lower() == RELOAD:
        return "reload", ""
    if page := pages.get(head.path):
        return page, ""
    if head.path[:4].lower() != b"/v1/":
        return _page_of_model(head, target), ""
    if head.method == "OPTIONS":
        return "preflight", ""
    try:
        found = route(head.method, target)
    except InvalidRequest:
        return NOTHING, ""
    return found.verb, found.model.name


def _page_of_model(head: RequestHead, target: str) -> str:
    if model_asked(head.path):
        return "health"
    raise NotFound(
        f"Malformed request: {head.method} {target}: there is no such page; the API lies below"
        f" {MODELS}"
    )


def _post(target: str) -> Route:
    found = _POST.fullmatch(target)
    if not found and target.lower() == LOG_LEVEL:
        return Route("set_log_level", ModelSpec(""))
    if not found or not found[4].islower() or _is_chosen(found, "labels"):
        raise _malformed("POST", target)
    return Route(found[4], _model(found[1], found[2], found[3]))


def _get(target: str) -> Route:
    of_all = _ALL.get(target.lower())
    if of_all:
        return Route(of_all, ModelSpec(""))
    found = _GET.fullmatch(target)
    if not found:
        return Route("stream", _streamed(target))
    if _is_chosen(found, "details"):
        raise _malformed("GET", target)
    if not found[1]:
        raise InvalidRequest(
            advised(
                "Missing model name in request.",
                f" Expected GET {MODELS}/<name>, or GET {MODELS} for the list of models",
            )
        )
    word, model = (found[4] or "").partition("?")[0], _model(found[1], found[2], found[3])
    return Route(word if word in _OF_A_MODEL else "status", model, found[5] or "")


def _is_chosen(found: re.Match[str], verb: str) -> bool:
    """Return whether a version is named for `verb`, which concerns a model as a whole."""
    return found[4] == verb and bool(found[2] or found[3])


def stream_asked(head: RequestHead) -> ModelSpec:
    """Parse which model's stream a request opens; the query has options. Raises: InvalidRequest."""
    return _streamed(target_of(head.path, b""))


def _streamed(target: str) -> ModelSpec:
    # Unlike in TensorFlow Serving's grammar there may be a query: the options of a stream.
    found = _STREAM.fullmatch(target.partition("?")[0])
    # The last word is compared with regard to case, as in `_post`.
    if not found or not found[4].islower():
        raise _malformed("GET", target)
    return _model(found[1], found[2], found[3])


def _model(name: str, version: str | None, label: str | None) -> ModelSpec:
    number = None
    if version is not None:
        # int() of very many digits is slow and refused: more than 19 digits never fit anyway.
        number = int(version) if len(version.lstrip("0")) <= len(str(INT64_MAX)) else INT64_MAX + 1
        if number > INT64_MAX:
            raise VersionOverflow(f"Failed to convert version: {version} to numeric.")
    return ModelSpec(unquote(name), number, None if label is None else unquote(label))


def _malformed(method: str, target: str) -> InvalidRequest:
    return InvalidRequest(f"Malformed request: {method} {target}")
