"""`/v1/config`: shows the states of all models, and reloads or changes labels on request.

Source: OpenVINO Model Server, Config Status API and Config Reload API. Labels and details are ours.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ie_serving.core.settings.words import too_long
from ie_serving.core.values.errors import DeadlineExceeded, Forbidden, InvalidRequest
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.versions import VersionStatus
from ie_serving.models.admin.label_changes import LabelChanges, ModelDetails
from ie_serving.telemetry.log.events import mask
from ie_serving.wire.tfs.statuses import StatusEncoder

STATUS = "/v1/config"
RELOAD = "/v1/config/reload"
DETAILS = "/v1/config/details"
UNCHANGED, CHANGED = 200, 201

Statuses = Callable[[], Mapping[str, Sequence[VersionStatus]]]
"""Returns the versions of every model, highest first; empty for a model without versions."""
Reload = Callable[[], Awaitable[bool]]
"""Reloads; returns whether anything changed. Raises ServingError."""


class ConfigPages:
    """Answers the requests to `/v1/config`.

    Args of the constructor:
        statuses, reload, labels: read and change the models.
        encoder: encoder of statuses.
        reload_allowed: whether clients may reload, and set labels.
        limit_s: longest wait in seconds for a reload or a change of labels.
        config_fault: gives why the configuration file is not applied; empty where it is.
    """

    def __init__(
        self,
        statuses: Statuses,
        reload: Reload,
        labels: LabelChanges,
        encoder: StatusEncoder,
        *,
        reload_allowed: bool,
        limit_s: float,
        config_fault: Callable[[], str] = str,
    ) -> None:
        self._statuses = statuses
        self._reload = reload
        self._labels = labels
        self._encoder = encoder
        self._reload_allowed = reload_allowed
        self._limit_s = limit_s
        self._config_fault = config_fault

    def status(self) -> bytes:
        """Show the states of every model."""
        return self._encoder.json_of_all(self._statuses())

    def details(self, name: str) -> bytes:
        """Show the details of one model. Raises: NotFound."""
        return _json(self._with_fault(self._labels.details(name)))

    def all_details(self) -> bytes:
        """Show the details of every model."""
        every = self._labels.all_details().items()
        return _json({name: self._with_fault(each) for name, each in every})

    def _with_fault(self, details: ModelDetails) -> dict[str, Any]:
        # The server's fault: a caller who may read one model alone is told as well.
        fault = mask(self._config_fault())
        return {**_details_document(details), "configuration_not_applied": fault}

    async def relabel(self, name: str, body: bytes) -> bytes:
        """Change labels of one model; return its details.

        Raises:
            Forbidden: changes by request are switched off.
            InvalidRequest: the body does not have the expected form.
            DeadlineExceeded: another change of the configuration takes too long.
            ServingError: a label cannot be set; nothing has changed.
        """
        if not self._reload_allowed:
            raise Forbidden(
                "labels by request are switched off: change the configuration file",
                Hint(", or let clients set them with {server.reload_by_rpc}"),
            )
        try:
            await asyncio.wait_for(self._labels.change(name, changes_of(body)), self._limit_s)
        except asyncio.TimeoutError:
            raise DeadlineExceeded(
                f"another change of the configuration was not over within {self._limit_s:g} s, and"
                " no label has changed: ask again later",
                Hint(", or raise {server.rest_timeout_s}"),
            ) from None
        return self.details(name)

    async def reload(self) -> tuple[int, bytes]:
        """Reload; return every model, and an HTTP status that says whether anything changed.

        Raises:
            Forbidden: reloads by request are switched off.
            DeadlineExceeded: the reload takes too long; it continues.
            ServingError: the reload failed.
        """
        # Checked before anything is read: errors of a reload quote the configuration file.
        if not self._reload_allowed:
            raise Forbidden(
                "reloads by request are switched off: change the configuration file",
                Hint(", or let clients ask for them with {server.reload_by_rpc}"),
            )
        return (CHANGED if await self._reloaded() else UNCHANGED), self.status()

    async def _reloaded(self) -> bool:
        """Reload; return whether anything changed."""
        # The time-out ends this request's wait alone: other requests share the listings, and loads
        # belong to their models.
        try:
            return await asyncio.wait_for(self._reload(), self._limit_s)
        except asyncio.TimeoutError:
            raise DeadlineExceeded(
                f"the reload was not over within {self._limit_s:g} s; what it has begun goes on:"
                f" GET {STATUS} shows how far it is",
                Hint(", or raise {server.rest_timeout_s}"),
            ) from None


def changes_of(body: bytes) -> Mapping[str, int | None]:
    """Read `{"labels": {"stable": 3, "old": null}}`: versions by label; null removes the label.

    Raises:
        InvalidRequest: the body has another form.
    """
    expected = 'expected {"labels": {"LABEL": VERSION, ...}}, with null for a label to remove'
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is no JSON ({error}); {expected}") from None
    changes = document.get("labels") if isinstance(document, dict) else None
    if not isinstance(changes, dict) or not changes or len(document) > 1:
        raise InvalidRequest(f"the body has no labels, or more than labels; {expected}")
    for label, version in changes.items():
        if not label or not _is_version(version):
            raise InvalidRequest(
                f'label "{label}" has the version {json.dumps(version):.80}; {expected}'
            )
        if not _is_text(label):
            raise InvalidRequest(f"label {label!a:.80} is no Unicode text; {expected}")
        if wrong := too_long("label", label):
            raise InvalidRequest(wrong)
    return changes


def _is_text(label: str) -> bool:
    """Return whether requests can name the label: half of a surrogate pair has no UTF-8."""
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_version(version: object) -> bool:
    if version is None:
        return True
    return type(version) is int and 0 <= version <= INT64_MAX


def _details_document(details: ModelDetails) -> dict[str, Any]:
    return {
        "default_version": details.default_version,
        "labels": dict(details.labels),
        "waiting_labels": dict(details.waiting),
        "memory_bytes": {str(version): size for version, size in details.memory.items()},
        "precisions": {str(version): dict(each) for version, each in details.precisions.items()},
        "settings_not_applied": mask(details.not_applied),
        "listing_failed": mask(details.trouble),
    }


def _json(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
