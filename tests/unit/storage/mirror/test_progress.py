"""A line now and then, no more."""

import logging

import pytest

from ie_serving.storage.mirror.download import Progress


def test_lines_are_as_far_apart_as_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    seconds = iter([0.0, 1.0, 4.9, 5.0, 6.0, 10.0, 11.0])
    progress = Progress("s3://b/m/1", 4_000_000, 5, lambda: next(seconds))
    for _ in range(5):
        progress.add(500_000)
    progress.finish()
    assert [record.getMessage() for record in caplog.records] == [
        "download runs path=s3://b/m/1 done_mb=1.5 total_mb=4 elapsed_s=5",
        "download runs path=s3://b/m/1 done_mb=2.5 total_mb=4 elapsed_s=10",
        "download done path=s3://b/m/1 done_mb=2.5 total_mb=4 elapsed_s=11",
    ]
