"""Each folder of examples: its README typed as it stands, its notebook executed, its size."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.functional.servers import ROOT
from tests.functional.typed import Typed, blocks

EXAMPLES = ROOT / "examples"
FOLDERS = {path.parent.name: path.parent for path in sorted(EXAMPLES.glob("*/README.md"))}
TYPED = [name for name, folder in FOLDERS.items() if blocks((folder / "README.md").read_text())]
MADE = shutil.ignore_patterns("__pycache__")
pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")


@pytest.fixture
def typed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Typed]:
    """Give a copy of one folder, with the other folders beside it, to type in."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=MADE)
    with closing(Typed(tmp_path / "examples" / request.param, EXAMPLES / request.param)) as typed:
        typed.give_ports()
        yield typed


@pytest.mark.parametrize("typed", TYPED, indirect=True)
def test_the_readme(typed: Typed) -> None:
    typed.page((typed.folder / "README.md").read_text())
