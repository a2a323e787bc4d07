"""The state that the page polls: every model with its versions, and recent errors."""

import asyncio
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ie_serving import __version__
from ie_serving.core.values.versions import VersionStatus
from ie_serving.models.served import Served
from ie_serving.telemetry.log.events import mask
from ie_serving.telemetry.metrics.recent_errors import FailureCount, FailureKind

if TYPE_CHECKING:
    from ie_serving.server.fronts.page.page_front import PageSources

MODELS_AT_ONCE: Final = 64
"""Models described, in 0.5 ms, before the event loop runs other tasks."""


class State:
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


def summary(served: Served) -> dict[str, Any]:
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
