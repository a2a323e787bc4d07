"""How long each part of `make fuzz` goes on."""

import os

import pytest

SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
"""Of each test."""
BESIDE_S = 240
"""What a test takes at most beside them: servers start, the last answer is awaited."""

marks = [pytest.mark.fuzz, pytest.mark.timeout(SECONDS + BESIDE_S)]
