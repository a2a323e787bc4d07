"""`mapping_config.json` renames tensors; one that cannot be read renames none."""

import json
from pathlib import Path

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.reading.mapping import FILE, aliases, read_mapping

KNOWN = [{"a", "a:0"}, {"b"}]


def test_without_the_file_nothing_is_renamed(tmp_path: Path) -> None:
    assert read_mapping(tmp_path) == ({}, {})


def test_other_keys_are_ignored(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"inputs": {"a": "x"}, "comment": 1}))
    assert read_mapping(tmp_path) == ({"a": "x"}, {})


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", '{"inputs": []}', '{"outputs": {"a": 1}}', '{"inputs": {"a": ""}}']
)
def test_anything_else_is_named_and_the_own_names_serve(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text(text)
    assert read_mapping(tmp_path) == ({}, {})
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert str(tmp_path / FILE) in record.getMessage()


@pytest.mark.parametrize(
    ("renames", "names"),
    [
        ({}, ["a", "b"]),
        ({"a": "x"}, ["x", "b"]),
        ({"a:0": "x"}, ["x", "b"]),
        ({"a": "b", "b": "a"}, ["b", "a"]),
    ],
    ids=str,
)
def test_names_that_the_mapping_has_become_aliases(
    renames: dict[str, str], names: list[str]
) -> None:
    assert aliases(["a", "b"], KNOWN, renames, "inputs") == names


@pytest.mark.parametrize(
    "renames", [{"a": "b"}, {"a": "x", "b": "x"}, {"a": "x", "a:0": "y"}], ids=str
)
def test_a_collision_fails_the_load(renames: dict[str, str]) -> None:
    with pytest.raises(LoadFailed):
        aliases(["a", "b"], KNOWN, renames, "inputs")


def test_an_unknown_tensor_warns(caplog: pytest.LogCaptureFixture) -> None:
    assert aliases(["a", "b"], KNOWN, {"c": "x"}, "outputs") == ["a", "b"]
    assert "names unknown tensors kind=outputs names=c" in caplog.text
