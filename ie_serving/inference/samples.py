"""The Predict requests in a version's directory: golden requests, and warm-up records.

An unreadable file yields no samples. The later step that replays the file logs the error or refuses
the version.

Also reads files of golden requests one request at a time, so that memory holds only one.

A file that exists has to be usable: a directory, an empty file or one with too many requests is an
error, since otherwise a version that the file should refuse would serve.
"""

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ie_serving.core.values.errors import InvalidRequest, ServingError
from ie_serving.core.values.requests import GoldenRequest, InferRequest, Sample
from ie_serving.inference.warmup import MOST_RECORDS, RECORDS, Records

MOST_REQUESTS = 10_000
"""Most golden requests of one file; more are refused. At 1 ms each they delay a version by 10 s."""

Read = Callable[[BinaryIO], Iterable[GoldenRequest]]
"""Reads a file. Raises InvalidRequest."""


def golden_requests(path: Path, read: Read) -> Iterator[GoldenRequest]:
    """Yield the requests of one file. Blocking.

    Raises:
        InvalidRequest: not a regular file, damaged, empty, or with more than `MOST_REQUESTS`.
        OSError: the file cannot be read.
    """
    # Checked before opening: to open a pipe blocks until another process writes to it.
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidRequest("it is no regular file")
    count = 0
    with path.open("rb") as file:
        for golden in read(file):
            count += 1
            if count > MOST_REQUESTS:
                raise InvalidRequest(f"it has more than {MOST_REQUESTS} requests: keep the best")
            yield golden
    if not count:
        raise InvalidRequest("it has no requests: add some, or remove the file")


PREDICT = "predict_log"
"""Kind of the records that hold a Predict; other kinds (Classify, Regress ...) are skipped."""

Parse = Callable[[bytes], InferRequest]
"""Reads a serialized PredictRequest. Raises InvalidRequest."""


class RecordedRequests:
    """Yields the samples of a version directory.

    Args of the constructor:
        golden: readers of golden requests, by file name.
        records: reads a file of records.
        parse: reads the request of a record.
    """

    def __init__(self, golden: Mapping[str, Read], records: Records, parse: Parse) -> None:
        self._golden = golden
        self._records = records
        self._parse = parse

    def __call__(self, directory: Path) -> Iterator[Sample]:
        """Yield golden requests first, then records. Blocking."""
        # Golden ones first: callers take only the first few, and these have expected outputs.
        for name, read in self._golden.items():
            yield from _readable(self._of_golden(directory / name, read))
        yield from _readable(self.of_records(directory / RECORDS))

    def of_file(self, path: Path) -> Iterator[Sample]:
        """Yield the requests of one file; the suffix of its name selects the reader.

        Raises:
            InvalidRequest: the file is damaged.
            OSError: the file cannot be read.
        """
        of_json = next((r for name, r in self._golden.items() if name.endswith(".json")), None)
        if path.suffix == ".json" and of_json:
            return self._of_golden(path, of_json)
        return self.of_records(path)

    def _of_golden(self, path: Path, read: Read) -> Iterator[Sample]:
        for golden in golden_requests(path, read):
            yield Sample(f"{golden.place} of {path.name}", golden.request, golden)

    def of_records(self, path: Path) -> Iterator[Sample]:
        """Yield the Predicts of a file of records.

        Raises:
            InvalidRequest: the file is damaged.
            OSError: the file cannot be read.
        """
        with path.open("rb") as file:
            for number, (kind, request) in enumerate(islice(self._records(file), MOST_RECORDS)):
                if kind == PREDICT:
                    yield Sample(f"record {number} of {path.name}", self._parse(request))


def _readable(samples: Iterable[Sample]) -> Iterator[Sample]:
    with suppress(OSError, ServingError):
        yield from samples
