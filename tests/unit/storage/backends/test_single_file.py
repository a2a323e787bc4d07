"""A model's file as a repository: one version, with what belongs to the file and nothing else."""

from pathlib import Path

import pytest

from ie_serving.core.values.errors import EntryChanged, NotThereYet, Unauthorized
from ie_serving.storage.backends.local import LocalStorage, SingleFile, is_model_file
from ie_serving.storage.backends.storage_opener import open_storage
from ie_serving.storage.options import StorageOptions
from tests.unit.storage.contract import VersionContract, listed


@pytest.fixture(autouse=True)
def _own_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "links").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "links"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("m.xml", "m.bin", "n.xml", "n.bin", "m.xml.part"):
        (models / name).write_text(name)
    (models / "m").mkdir()
    return models / "m.xml"


class FileRepository:
    """The files of version 1 are beside each other, and `model.xml` is the base path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = SingleFile(folder / "model.xml")

    def put(self, path: str, data: bytes) -> None:
        self.folder.mkdir(exist_ok=True)
        written = self.folder / "written"
        written.write_bytes(data)
        written.rename(self.folder / path.removeprefix("1/"))

    def remove(self, path: str) -> None:
        (self.folder / path.removeprefix("1/")).unlink()


@pytest.fixture
def repository(tmp_path: Path) -> FileRepository:
    return FileRepository(tmp_path / "models")


class TestSingleFile(VersionContract):
    pass


def test_the_file_is_version_1_with_its_weights(file: Path) -> None:
    storage = SingleFile(file)
    assert storage.url == str(file)
    assert storage.directories() == ["1"]
    assert [entry.path for entry in listed(storage, "1")] == ["1/m.bin", "1/m.xml"]
    assert listed(storage, "2") == ()


def test_the_same_model_in_another_format_is_another_one(file: Path) -> None:
    """Which of them is served would be the engine's choice, not that of the path."""
    for name in ("m.onnx", "m.tflite", "m.json"):
        file.with_name(name).write_text(name)
    for name in ("m.onnx", "m.tflite"):
        storage = SingleFile(file.with_name(name))
        assert [entry.path for entry in listed(storage, "1")] == ["1/m.bin", f"1/{name}"]


def test_a_copy_holds_exactly_the_files_in_the_same_place_each_time(file: Path) -> None:
    storage = SingleFile(file)
    entries = listed(storage, "1")
    with storage.copy("1", entries) as first, storage.copy("1", entries) as second:
        assert first == second
        assert {path.name: path.read_text() for path in first.iterdir()} == {
            "m.xml": "m.xml",
            "m.bin": "m.bin",
        }


def test_a_change_is_seen_and_gets_a_place_of_its_own(file: Path) -> None:
    storage = SingleFile(file)
    before = listed(storage, "1")
    with storage.copy("1", before) as old:
        pass
    file.write_text("another model")
    with pytest.raises(EntryChanged), storage.copy("1", before):
        pass
    with storage.copy("1", listed(storage, "1")) as new:
        assert new != old
        assert (new / "m.xml").read_text() == "another model"


def test_a_file_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    with pytest.raises(NotThereYet, match="no such file"):
        SingleFile(tmp_path / "m.onnx").directories()
    assert listed(SingleFile(tmp_path / "none" / "m.onnx"), "1") == ()


def test_links_are_not_put_where_another_user_could_change_them(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links" / "ie_serving-12345").mkdir()
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    storage = SingleFile(file)
    copied = storage.copy("1", listed(storage, "1"))
    with pytest.raises(Unauthorized, match="belongs to another user"), copied:
        pass


@pytest.mark.parametrize("name", ["m.xml", "m.onnx", "m.tflite", "m.pdmodel", "m.pb", "m.skops"])
def test_a_path_that_ends_like_a_model_is_its_file(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    assert is_model_file(path)
    assert isinstance(open_storage(path, StorageOptions(cache_dir=tmp_path)), SingleFile)
    assert isinstance(
        open_storage(f"file://{path}", StorageOptions(cache_dir=tmp_path)), SingleFile
    )
    Path(path).mkdir()
    assert isinstance(open_storage(path, StorageOptions(cache_dir=tmp_path)), LocalStorage)


def test_other_paths_are_directories(tmp_path: Path) -> None:
    assert not is_model_file(str(tmp_path))
    assert not is_model_file(str(tmp_path / "notes.md"))
