"""A temporary directory goes with its owner, however that goes, and with the process."""

import gc
import stat
from pathlib import Path

import pytest

from ie_serving.core.runtime.scratch import Scratch, remove_all


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_it_is_there_inside_its_context_for_this_user_alone(temporary: Path) -> None:
    with Scratch("a-") as path:
        (path / "file").touch()
        assert path.parent == temporary
        assert path.name.startswith("a-")
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert not path.exists()


def test_it_is_made_when_it_is_asked_for_once(temporary: Path) -> None:
    scratch = Scratch()
    assert list(temporary.iterdir()) == []
    assert scratch.made() == scratch.made() == scratch.path
    assert list(temporary.iterdir()) == [scratch.path]


def test_a_directory_that_another_process_has_made_is_not_taken() -> None:
    scratch = Scratch()
    scratch.path.mkdir()
    with pytest.raises(FileExistsError):
        scratch.made()


def test_it_goes_with_an_owner_that_is_forgotten(temporary: Path) -> None:
    scratch = Scratch()
    scratch.made()
    del scratch
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_all_go_with_the_process(temporary: Path) -> None:
    held = [Scratch(), Scratch()]
    for each in held:
        (each.made() / "file").touch()
    remove_all()
    assert list(temporary.iterdir()) == []
    held[0].close()  # its owner may end later
