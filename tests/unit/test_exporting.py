"""What a program has written is kept until something that it is made of is another one."""

from pathlib import Path

import pytest

from tests import exporting
from tests.exporting import export

PROGRAM = """
import sys
from pathlib import Path

from tests import used

Path(sys.argv[1], "written").write_text(used.TEXT)
with Path(__file__).with_name("runs").open("a") as runs:
    runs.write("x")
"""


def test_it_runs_again_once_what_it_uses_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "ROOT", tmp_path)
    monkeypatch.setattr(exporting, "KEPT", tmp_path / "build")
    (tmp_path / "tests").mkdir()
    program, used, runs = (tmp_path / "tests" / each for each in ("made.py", "used.py", "runs"))
    program.write_text(PROGRAM)

    def written(directory: str) -> str:
        return (export(program, tmp_path / directory) / "written").read_text()

    used.write_text("TEXT = 'first'")
    assert written("a") == "first"
    (tmp_path / "a" / "written").write_text("changed by a test")
    assert (written("b"), runs.read_text()) == ("first", "x")
    used.write_text("TEXT = 'second'")
    assert (written("c"), runs.read_text()) == ("second", "xx")
    assert len([each for each in (tmp_path / "build").iterdir() if each.is_dir()]) == 1
