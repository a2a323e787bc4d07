"""Each folder of examples: its README typed as it stands, its notebook executed, its size."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.functional.servers import ROOT
from tests.functional.typed import Typed, blocks
from tests.process import COMMANDS, PATIENCE_S

EXAMPLES = ROOT / "examples"
INDEX = (EXAMPLES / "README.md").read_text()
FOLDERS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
PAGES = {path.parent.name: path.read_text() for path in sorted(EXAMPLES.glob("*/README.md"))}
TYPED = [name for name, page in PAGES.items() if blocks(page)]
WITHOUT_PAGES = {"digits", "first_request", "models"}
"""Folders of the pages of docs/."""
MADE = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
MOST_LINES = 120
CLUSTER = ROOT / "tests" / "functional" / "stand_in_cluster.py"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")


@pytest.fixture
def typed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Typed]:
    """Give a copy of one folder, with the other folders beside it, to type in."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=MADE)
    with closing(Typed(tmp_path / "examples" / request.param, EXAMPLES / request.param)) as typed:
        typed.give_ports()
        yield typed


@pytest.mark.deployed
@pytest.mark.parametrize("typed", TYPED, indirect=True)
def test_the_readme_and_the_notebook_beside_it_run_as_they_stand(typed: Typed) -> None:
    typed.page((typed.folder / "README.md").read_text())
    for notebook in typed.folder.glob("*.ipynb"):
        shown, saved = executed(notebook), outputs(nbformat.read(notebook, 4))
        assert shown == saved


def executed(notebook: Path, **environment: str) -> list[tuple[str, str]]:
    """Execute a notebook where it lies, and give what its cells show; a failed cell fails."""
    book = nbformat.read(notebook, 4)
    there = {"metadata": {"path": str(notebook.parent)}}
    client = nbclient.NotebookClient(book, timeout=PATIENCE_S, resources=there)
    client.execute(env={**os.environ, **environment})
    return outputs(book)


def outputs(book: Any) -> list[tuple[str, str]]:
    """Give what cells show: `text` with it, or `picture`, whose bytes depend on its library."""
    shown = []
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                shown.append(("picture", ""))
            elif output.output_type == "stream" and output.name == "stdout":
                shown.append(("text", output.text))
    return shown


@pytest.mark.deployed
@pytest.mark.parametrize("typed", ["kubernetes"], indirect=True)
def test_the_page_on_kubernetes_runs_from_nothing(typed: Typed, tmp_path: Path) -> None:
    """The chart and the server are real; the cluster is `stand_in_cluster.py`."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("docker", "helm", "kind", "kubectl"):
        command = f'#!/bin/sh\nexec "{sys.executable}" "{CLUSTER}" {name} "$@"\n'
        (commands / name).write_text(command)
        (commands / name).chmod(0o755)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    cluster = tmp_path / "cluster"
    path = os.pathsep.join(map(str, (commands, COMMANDS, os.environ["PATH"])))
    shown = executed(
        typed.folder / "kubernetes.ipynb",
        PATH=path,
        PYTHONPATH=str(ROOT),
        CLUSTER=str(cluster),
        no_proxy="localhost",
    )
    said = "".join(text for _, text in shown)
    assert '"state": "AVAILABLE"' in said
    assert "digit 1, probability 0.9" in said
    assert ("picture", "") in shown
    assert not cluster.exists()


def test_the_index_names_each_folder() -> None:
    assert set(PAGES) == set(FOLDERS) - WITHOUT_PAGES
    assert [name for name in PAGES if f"[{name}]({name}/README.md)" not in INDEX] == []
    assert [name for name in WITHOUT_PAGES if f"| `{name}` |" not in INDEX] == []


@pytest.mark.parametrize("name", PAGES)
def test_each_file_is_read_at_once(name: str) -> None:
    for file in (EXAMPLES / name).rglob("*.*"):
        if file.suffix == ".ipynb":
            text = "\n".join(cell.source for cell in nbformat.read(file, 4).cells)
        elif file.suffix in (".md", ".py", ".json", ".yaml"):
            text = file.read_text()
        else:
            continue
        assert len(text.splitlines()) <= MOST_LINES, file
