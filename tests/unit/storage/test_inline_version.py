"""A version whose file stands in the configuration."""

from dataclasses import dataclass
from pathlib import Path

from ie_serving.storage.backends.local import LocalStorage
from ie_serving.storage.inline_version import InlineVersion, stated_or


@dataclass
class Text:
    text: str = "content"
    version: int = 3
    file: str = "f"


def test_its_one_version_has_one_file() -> None:
    storage = InlineVersion("graph:g", 3, "graph.json", "content")
    assert storage.directories() == ["3"]
    entries = tuple(storage.list("3"))
    assert [(entry.path, entry.size) for entry in entries] == [("3/graph.json", 7)]
    assert list(storage.list("4")) == []
    with storage.copy("3", entries) as directory:
        assert (directory / "graph.json").read_text() == "content"
    assert not directory.exists()


def test_another_text_is_another_content() -> None:
    (one,), (other,) = (InlineVersion("g", 1, "f", text).list("1") for text in ("a", "b"))
    assert one.tag != other.tag


def test_a_model_without_one_has_its_own_storage(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert stated_or(storage, None) is storage
    assert stated_or(storage, Text()).directories() == ["3"]
