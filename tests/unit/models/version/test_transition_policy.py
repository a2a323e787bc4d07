"""The next step for one model. What holds over any history of steps: test_histories.py."""

import re

import pytest

from ie_serving.core.values.versions import State
from ie_serving.models.version.transition_policy import (
    Action,
    Load,
    Snapshot,
    Unload,
    preserve_availability,
)


def snapshots(text: str) -> list[Snapshot]:
    """Read `1:AVAILABLE 2:LOADING!*`: `*` is aspired, `!` is due for a load."""
    found = re.findall(r"(\d+):([A-Z]+)(!?)(\*?)", text)
    return [Snapshot(int(v), State[state], bool(star), bool(due)) for v, state, due, star in found]


@pytest.mark.parametrize(
    ("stream", "action"),
    [
        pytest.param("", None, id="nothing to do"),
        pytest.param("1:START!*", Load(1), id="the first version"),
        pytest.param("1:START!* 2:START!*", Load(2), id="the highest first"),
        pytest.param("1:START* 2:START!*", Load(2), id="only those that are due"),
        pytest.param(
            "1:AVAILABLE 2:LOADING*",
            None,
            id="the old one stays until the new is ready",
        ),
        pytest.param("1:AVAILABLE 2:AVAILABLE*", Unload(1), id="replaced"),
        pytest.param("1:AVAILABLE 2:LOADING!*", Load(2), id="a failed successor is tried again"),
        pytest.param("1:AVAILABLE 2:AVAILABLE 3:LOADING*", None, id="two unwanted ones both stay"),
        pytest.param("1:AVAILABLE 2:AVAILABLE", Unload(1), id="none is wanted, lowest first"),
        pytest.param(
            "1:LOADING 2:AVAILABLE*", Unload(1), id="a load that is not wanted any more ends"
        ),
        pytest.param("1:LOADING 2:START!*", Unload(1), id="memory is given up before it is taken"),
        pytest.param("1:START 2:START!*", Unload(1), id="an unwanted version that never began"),
        pytest.param("1:UNLOADING 2:AVAILABLE* 3:END", None, id="what is going needs no step"),
        pytest.param(
            "1:AVAILABLE* 2:AVAILABLE 3:LOADING*",
            None,
            id="what a label keeps replaces nothing while the newest is still to come",
        ),
        pytest.param(
            "1:AVAILABLE* 2:AVAILABLE 3:AVAILABLE*", Unload(2), id="until the newest serves"
        ),
        pytest.param("1:AVAILABLE* 2:AVAILABLE", Unload(2), id="a version that was taken back"),
        pytest.param("1:LOADING* 2:AVAILABLE", None, id="not before the lower one serves"),
        pytest.param(
            "1:UNLOADING*",
            None,
            id="wanted again while unloading: wait until it is gone",
        ),
    ],
)
def test_availability_is_preserved_in_each_stream(stream: str, action: Action | None) -> None:
    assert preserve_availability(snapshots(stream)) == action
