"""The page at `/`: serves its files, and the JSON that fills it.

The page runs models through TensorFlow Serving's routes, like any client, and takes rates and
latencies from the metrics.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from ie_serving import __version__
from ie_serving.config.settings import Settings
from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread, let_go
from ie_serving.core.values.image_form import COLOURED
from ie_serving.core.values.tensors import DataType, Method, Signature, TensorSpec
from ie_serving.core.values.versions import VersionStatus
from ie_serving.models.served_models import ServedModel, ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.page import CONFIGURATION, FILE, FILES, MODEL, PROGRAMS, STATE
from ie_serving.server.fronts.page.configuration import configuration, of_model
from ie_serving.server.fronts.page.programs import programs
from ie_serving.server.fronts.rest.body import SAME_ORIGIN, read_body, refusal
from ie_serving.server.fronts.rest.routes import Verb
from ie_serving.server.transport.http1.messages import Headers, Reply, Request
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.log.events import mask
from ie_serving.telemetry.metrics.requests import FailureCount, FailureKind, RecentErrors
from ie_serving.wire.clients.sample import filled

MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Content types by the suffix of a file's name."""


def content_policy(images: str, *more: str) -> str:
    """Forbid inline code, resources from elsewhere, and frames around the page.

    Args:
        images: a source of images beside this origin.
        more: further directives.
    """
    own = (f"{kind}-src 'self'" for kind in ("script", "style", "connect"))
    none = (f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors"))
    return "; ".join(("default-src 'none'", *own, f"img-src 'self' {images}", *none, *more))


POLICY: Final = content_policy(
    "blob:",  # the picture that the user has chosen to send
    "require-trusted-types-for 'script'",  # the page's code cannot turn a string into HTML
    "trusted-types 'none'",
)


def security(policy: str) -> Headers:
    """Return the headers of every reply to a page, data included: no other site may frame it."""
    return (
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        SAME_ORIGIN,
    )


SECURITY: Final = security(POLICY)


@cache
def read(name: str) -> bytes:
    """Return a file of the page."""
    return files(__package__).joinpath("static").joinpath(name).read_bytes()


def headers_of(name: str, policy: str = POLICY) -> Headers:
    """Return a file's headers: browsers revalidate it at each use, since releases change it."""
    media_type = MEDIA_TYPES[name.rpartition(".")[2]].encode()
    return (b"content-type", media_type), (b"cache-control", b"no-cache"), *security(policy)


LARGEST_BODY: Final = 4 << 20
"""Largest body in bytes of a call to show as programs: a longer one is not readable text."""
_FRESH: Final[Headers] = ((b"cache-control", b"no-store"), *SECURITY)
_JSON: Final[Headers] = ((b"content-type", b"application/json"), *_FRESH)


class PageSources(NamedTuple):
    """Data sources of the page: configuration in force, models, health, recent errors, budget."""

    settings: Settings
    storage: StorageOptions
    served: ServedModels
    health: Health
    errors: RecentErrors
    usage: Callable[[], Mapping[str, int] | None]


class PageFront:
    """Answers the requests of the page.

    Args of the constructor:
        parts: the data that the page shows.
    """

    def __init__(self, parts: PageSources) -> None:
        self._parts = parts
        self._state = PageState(parts)
        self._data: Mapping[str, Callable[[Request, str], Awaitable[Any]]] = {
            STATE: lambda *_: self._state.shown(),
            CONFIGURATION: self._configuration,
            MODEL: self._model,
            PROGRAMS: self._programs,
        }

    async def answer(self, request: Request, found: Verb) -> Reply:
        """Answer one request; `found` is the result of `page.asked`."""
        verb, model = found
        if verb == FILE:
            name = FILES[request.head.path]
            return Reply(200, headers_of(name), read(name))
        try:
            shown = await self._data[verb](request, model)
            # The state is written in a thread: that of a thousand models is a megabyte of JSON.
            body = await asyncio.to_thread(json.dumps, shown)
            return Reply(200, _JSON, body.encode())
        except Exception as error:
            reply = refusal(error)
            return reply._replace(headers=(*reply.headers, *_FRESH))
        except asyncio.CancelledError as error:
            let_go(error)
            raise

    async def _configuration(self, _: Request, __: str) -> object:
        return configuration(self._parts.settings.server, self._parts.storage)

    async def _model(self, _: Request, name: str) -> object:
        return described(self._parts.served.entry(name))

    async def _programs(self, request: Request, _: str) -> object:
        held = Lease(BUDGET)  # held until the programs are written
        body = await read_body(request, LARGEST_BODY, held)
        return await in_thread(lambda: programs(body))


OPEN_SIZE: Final = 1
"""Size shown for a dimension of any size: one row is the cheapest to try."""
OF_EXAMPLES: Final = (Method.CLASSIFY.value, Method.REGRESS.value)
"""Methods whose requests are Examples if the signature maps features to inputs."""


def described(served: ServedModel) -> dict[str, Any]:
    """Describe one model."""
    available = served.stream.available
    versions = [
        {**version_of(status), **_loaded(available.get(status.version))}
        for status in served.stream.statuses()
    ]
    return {
        **summary(served),
        "base_path": mask(served.config.base_path),
        "versions": versions,
        "configuration": of_model(served.config),
    }


def _loaded(servable: Servable | None) -> dict[str, Any]:
    """Describe facts that only a serving version has."""
    if servable is None:
        return {"signatures": []}
    return {
        "memory": servable.memory,
        "load": dict(servable.load_s),
        "signatures": [_signature(each) for _, each in sorted(servable.signatures.items())],
    }


def _signature(signature: Signature) -> dict[str, Any]:
    examples = signature.examples
    verb = "predict"
    if examples and signature.method in OF_EXAMPLES:
        verb = Method(signature.method).word
    return {
        "name": signature.name,
        "method": signature.method,
        "verb": verb,
        "left_out": signature.left_out,
        "precision": signature.precision,
        "runs_on": signature.runs_on,
        "takes_any": signature.takes_any,
        "features": sorted(examples.features.values()) if examples else [],
        "inputs": [_input(spec, signature) for spec in signature.inputs.values()],
        "outputs": [_tensor(spec) for spec in signature.outputs.values()],
    }


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "dtype": spec.dtype.word,
        "shape": None if spec.shape is None else list(spec.shape),
        "layout": spec.layout,
    }


def _input(spec: TensorSpec, signature: Signature) -> dict[str, Any]:
    sample = filled(spec, OPEN_SIZE)
    return {
        **_tensor(spec),
        "optional": spec.name in signature.defaults,
        "image": spec.image.described() if spec.image else None,
        "colours": spec.image.colours if spec.image and spec.image.channels == COLOURED else None,
        "takes_files": bool(spec.image) or spec.dtype is DataType.STRING,
        "value": sample.value,
        "sizes": list(sample.sizes),
    }


MODELS_AT_ONCE: Final = 64
"""Models described, in 0.5 ms, before the event loop runs other tasks."""


class PageState:
    """Describes the present state of the server. Belongs to one event loop."""

    def __init__(self, parts: "PageSources") -> None:
        self._settings = parts.settings.server
        self._served = parts.served
        self._health = parts.health
        self._errors = parts.errors
        self._usage = parts.usage

    async def shown(self) -> Mapping[str, Any]:
        """Return the whole state, ready for JSON."""
        entries = self._served.entries
        models = []
        for index, name in enumerate(sorted(entries)):
            models.append(summary(entries[name]))
            if not (index + 1) % MODELS_AT_ONCE:
                await asyncio.sleep(0)
        return {
            "server": self._server(),
            "models": models,
            "errors": [_failure(kind, failure) for kind, failure in self._errors.newest()],
        }

    def _server(self) -> Mapping[str, Any]:
        pages = self._settings.metrics_pages
        return {
            "version": __version__,
            "phase": self._health.phase.value,
            "now": time.time(),
            "process": os.getpid(),
            "workers": self._settings.workers,
            "metrics": next((path for path, families in pages.items() if not families), None),
            "asks_callers": self._settings.has_access,
            "budget": self._usage(),
        }


def summary(served: ServedModel) -> dict[str, Any]:
    """Describe one model briefly."""
    stream = served.stream
    shares = stream.split.shares if stream.split else {}
    return {
        "name": served.config.name,
        "default": None if (default := stream.unnamed_version) is None else str(default),
        "shares": {str(n): share for n, share in shares.items()},
        "labels": {label: str(version) for label, version in stream.labels.items()},
        "trouble": mask(stream.lacking) if stream.lacking else None,
        "is_loaded": stream.is_admitted,
        "not_applied": mask(served.unapplied) if served.unapplied else None,
        "versions": [version_of(status) for status in stream.statuses()],
    }


def version_of(status: VersionStatus) -> dict[str, Any]:
    """Describe one version briefly; numbers as text, since browsers keep only 53 bits."""
    return {
        "version": str(status.version),
        "state": status.state.name,
        "failed": bool(status.error),
        "cause": mask(status.message),
    }


def _failure(kind: FailureKind, failure: FailureCount) -> dict[str, Any]:
    return {
        "model": kind.model,
        "version": kind.key.version,
        "interface": kind.key.interface,
        "method": kind.key.method,
        "code": kind.code,
        **failure._asdict(),
    }
