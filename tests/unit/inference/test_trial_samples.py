"""Requests that a trial takes from the files of a version."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.inference.warmup import PREDICT, RECORDS, RecordedRequests


def test_a_damaged_file_gives_what_is_before_the_damage_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def records(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
        yield PREDICT, b"first"
        raise InvalidRequest("record 1: its checksum is wrong")

    path = tmp_path / RECORDS
    path.parent.mkdir(exist_ok=True)
    path.touch()
    parse: Any = bytes
    assert [each.request for each in RecordedRequests({}, records, parse)(tmp_path)] == [b"first"]
    assert [record.getMessage() for record in caplog.records] == [
        f'requests for a trial not read path={path} cause="record 1: its checksum is wrong"'
    ]


def test_a_version_without_such_files_logs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def read(file: Any) -> Any:
        pytest.fail("there is no file")

    parse: Any = bytes
    assert not list(RecordedRequests({"golden.json": read}, lambda file: iter(()), parse)(tmp_path))
    assert not caplog.records
