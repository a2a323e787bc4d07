"""Faults: all at once, each with its place, short."""

import pytest

from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.numbers import port
from ie_serving.core.values.errors import ConfigError


def test_faults_are_collected_and_raised_together() -> None:
    faults = Faults()
    assert faults.take(port, "9000", "--port") == 9000
    assert faults.take(port, "x", "--port") is None
    faults.add("--rest_port", "missing")
    with pytest.raises(ConfigError) as caught:
        faults.check()
    assert [each.split(":")[0] for each in caught.value.faults] == ["--port", "--rest_port"]


def test_nothing_wrong_raises_nothing() -> None:
    Faults().check()


def test_a_fault_shows_a_huge_value_shortly() -> None:
    assert len(str(fault("--port", "9" * 100_000, "a port"))) < 200
