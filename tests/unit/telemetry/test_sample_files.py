"""Both files have the same requests, whatever fails."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ie_serving.telemetry.request.record_files import RecordFiles, SampleFiles


def kept(folder: Path, encode: Callable[[Any], bytes], numbers: range) -> dict[str, bytes]:
    files = SampleFiles(str(folder / "m"), 100, encode, lambda path: 0)
    for number in numbers:
        files.put(("answer", number), ("shadow", number))
    files.close(wait=True)
    return {path.name.split("-")[1]: path.read_bytes() for path in folder.iterdir()}


def test_an_answer_that_cannot_be_written_leaves_out_the_other(tmp_path: Path) -> None:
    def encode(given: tuple[str, int]) -> bytes:
        if given in (("answer", 1), ("shadow", 2)):
            raise ValueError("as it is")
        return str(given[1]).encode()

    assert kept(tmp_path, encode, range(5)) == {"answers": b"034", "shadows": b"034"}


def test_a_file_that_refuses_takes_the_other_record_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = RecordFiles.append

    def refuses(self: RecordFiles, record: bytes) -> None:
        if record == b"1" and "answers" in self._prefix:
            raise OSError("no space")
        append(self, record)

    monkeypatch.setattr(RecordFiles, "append", refuses)
    found = kept(tmp_path, lambda given: str(given[1]).encode(), range(3))
    assert found == {"answers": b"02", "shadows": b"02"}
