"""Tells, before a version serves, how its signatures break clients of the one that serves now.

The model's setting decides about an incompatible version: it is held back, or it is served and the
log names the changes. TensorFlow Serving serves it and logs nothing.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from ie_serving.core.values.breaking_changes import summary
from ie_serving.core.values.errors import VersionHeldBack
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Signature
from ie_serving.models.configuration import REFUSE
from ie_serving.models.served_models import ServedModels
from ie_serving.models.stream import ModelStream
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


class SignatureChanges:
    """Compares a version with the one that answers requests without a version now.

    Of a model on demand that is not in memory, this is the version that did so before.

    Args of the constructor:
        models: the models that serve.
    """

    def __init__(self, models: ServedModels) -> None:
        self._models = models

    async def __call__(self, servable: Servable, directory: Path) -> None:
        """Compare. Raises: VersionHeldBack, where the model's setting is `refuse`."""
        served = self._models.entries.get(servable.name)
        if served is None or (before := _answers(served.stream)) is None:
            return
        number, signatures = before
        is_renewed = number == servable.version and served.stream.is_renewing
        if number >= servable.version and not is_renewed:  # it replaces nothing for them
            return
        changes = summary(signatures, servable.signatures)
        if not changes:
            return
        if served.config.signature_changes == REFUSE:
            why = f"clients of version {number} would fail: {changes}"
            if served.config.repository:
                raise VersionHeldBack(
                    f"{why}; set signature_changes to allow in {served.config.base_path}/model.json"
                    ", or serve it under another name"
                )
            raise VersionHeldBack(
                why,
                Hint("; set {model.signature_changes} to allow, or serve it under another name"),
            )
        log.warning(
            Event(
                "signatures have changed",
                model=servable.name,
                version=servable.version,
                before=number,
                changes=changes,
            )
        )


def _answers(stream: ModelStream) -> tuple[int, Mapping[str, Signature]] | None:
    default = stream.default
    return (default.version, default.signatures) if default else stream.answered
