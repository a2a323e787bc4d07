"""What the page shows of the server and its models, ready for JSON."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ie_serving import __version__
from ie_serving.config.settings import Settings
from ie_serving.core.values.image_form import COLOURED
from ie_serving.core.values.tensors import DataType, Method, Signature, TensorSpec
from ie_serving.core.values.versions import VersionStatus
from ie_serving.models.served_models import ServedModel, ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.page.configuration import of_model
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.log.events import mask
from ie_serving.telemetry.metrics.requests import FailureCount, FailureKind, RecentErrors
from ie_serving.wire.clients.sample import filled


class PageSources(NamedTuple):
    """Data sources of the page: configuration in force, models, health, recent errors, budget."""

    settings: Settings
    storage: StorageOptions
    served: ServedModels
    health: Health
    errors: RecentErrors
    usage: Callable[[], Mapping[str, int] | None]


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
