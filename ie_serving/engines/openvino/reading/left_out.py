"""Leaves a signature that cannot be served out of a version, so that the others still serve."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.culprits import among
from ie_serving.engines.openvino.interface.draft import Version
from ie_serving.engines.openvino.runtime import load_failures
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


@contextmanager
def leaving_out(version: Version, name: str, how: str) -> Iterator[None]:
    """Leave a signature out when the body fails; the other signatures still serve.

    Args:
        version: which notes the cause.
        name: signature name.
        how: the step that failed: `converted`, `compiled`.
    """
    what = f"{version.file}: signature {name!r} cannot be {how}"
    try:
        with among(partial(version.operations, name)), load_failures(what):
            yield
    except LoadFailed as error:
        text = str(error)
        _leave_out(version, name, text if text.startswith(what) else f"{what}: {text}")
    # A graph that we read wrongly is a defect of ours, and still no reason to refuse the others.
    except Exception as error:
        log.exception(Event("signature left out by a defect", signature=name))
        _leave_out(version, name, f"{what}: {type(error).__name__}: {error}")


def _leave_out(version: Version, name: str, cause: str) -> None:
    version.causes[name] = LoadFailed(cause)
