"""The guide has a row for every flag and platform of simple_tensorflow_serving."""

import re
from pathlib import Path

from ie_serving.compat.stfs.dialect import DRIVERS, RETIRED
from ie_serving.compat.stfs.flags import FLAGS

PAGE = (
    Path(__file__).parents[4] / "docs" / "guide" / "migration-simple-tensorflow-serving.md"
).read_text()
NAMED = {
    name
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for name in re.findall(r"`([^`]+)`", line.split(" | ")[0])
}


def test_every_flag_has_a_row() -> None:
    assert {name for name in NAMED if name.startswith("--")} == {f"--{f.name}" for f in FLAGS}


def test_every_platform_has_a_row() -> None:
    assert {*DRIVERS, *RETIRED} <= NAMED
