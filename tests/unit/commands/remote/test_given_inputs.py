"""Files as requests: what each kind becomes, and what is refused before a server is asked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.commands.remote.failures import CommandMisused
from ie_serving.commands.remote.given_inputs import read


def body_of(tmp_path: Path, name: str, content: str | bytes, field: str = "", **more: str) -> Any:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    given = read(str(file), None, field, more.get("signature", ""))
    assert given.body is not None
    return json.loads(given.body)


@pytest.mark.parametrize(
    ("name", "content", "field", "instances"),
    [
        pytest.param(
            "a.csv", "1,2.5\n3,-4e3\n", "", [[1, 2.5], [3, -4000.0]], id="a CSV of numbers"
        ),
        pytest.param(
            "a.csv",
            "\ufeff1,2\r\n\r\n3,4\r\n",
            "x",
            [{"x": [1, 2]}, {"x": [3, 4]}],
            id="a CSV with a byte order mark",
        ),
        pytest.param(
            "a.csv", 'age,name\n3,"a, b"\n', "", [{"age": 3, "name": "a, b"}], id="a CSV with names"
        ),
        pytest.param("a.csv", "a,b\n1,2\n", "x", [{"x": [1, 2]}], id="names beside a field"),
        pytest.param("a.csv", "1;2\n3;4\n", "", [[1, 2], [3, 4]], id="semicolons"),
        pytest.param("a.tsv", "1\t2\n", "", [[1, 2]], id="tabs"),
        pytest.param("a.PNG", b"\x89PNG", "", [{"b64": "iVBORw=="}], id="a PNG"),
        pytest.param(
            "a.jpg", b"\xff\xd8", "image", [{"image": {"b64": "/9g="}}], id="a JPEG of a field"
        ),
    ],
)
def test_tables_and_images_become_rows(
    tmp_path: Path, name: str, content: str | bytes, field: str, instances: Any
) -> None:
    assert body_of(tmp_path, name, content, field) == {"instances": instances}


def test_json_is_sent_as_it_is_unless_it_lacks_the_signature(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b' {"inputs":  [NaN]} ')
    assert read(str(file), None, "", "").body == b' {"inputs":  [NaN]} '
    assert body_of(tmp_path, "b.json", '{"inputs": 1}', signature="s") == {
        "signature_name": "s",
        "inputs": 1,
    }


@pytest.mark.parametrize(
    ("name", "content", "field", "text"),
    [
        pytest.param(
            "a.csv",
            "1,2\n3\n",
            "",
            "row 2 has 1 columns, and the first 2",
            id="rows of different lengths",
        ),
        pytest.param("a.csv", "", "", "has no rows", id="an empty file"),
        pytest.param("a.csv", "a,b\n", "", "expected rows below it", id="a head without rows"),
        pytest.param(
            "a.csv", b"\xff\xfe1", "", "expected a table in UTF-8", id="bytes that are no text"
        ),
        pytest.param("a.txt", "1", "", "say it by --format", id="another ending"),
        pytest.param("a.npy", "no array", "", "of plain arrays", id="no npy"),
        pytest.param("a.npz", "no array", "", "of plain arrays", id="no npz"),
        pytest.param("a.json", "{}", "x", "JSON names its inputs itself", id="JSON with a field"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, name: str, content: str | bytes, field: str, text: str
) -> None:
    with pytest.raises(CommandMisused, match=text):
        body_of(tmp_path, name, content, field)


def test_python_objects_in_an_array_are_not_loaded(tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    np.save(file, np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(CommandMisused, match="of plain arrays"):
        read(str(file), None, "", "")
