"""Logging for tests that configure it."""

import logging
from collections.abc import Iterator

import pytest

from ie_serving.telemetry import logs


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Leave logging as it was."""
    root, ours = logging.getLogger(), logging.getLogger(logs.OWN)
    levels, handlers = (root.level, ours.level), list(root.handlers)
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
