"""The Predicts that a version brings along: its golden requests, and its records for the warm-up.

Files that cannot be read give none: whoever replays them afterwards says so, or refuses the
version.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import InferRequest
from ie_serving.core.values.samples import Sample
from ie_serving.inference.golden_files import Read, golden_requests
from ie_serving.inference.warmup import MOST_RECORDS, RECORDS, Records

PREDICT = "predict_log"
"""Kind of the records that hold a Predict; Classify, Regress and MultiInference are passed over."""

Parse = Callable[[bytes], InferRequest]
"""Reads a serialized PredictRequest. Raises InvalidRequest."""


class RecordedRequests:
    """Gives the samples of a version directory.

    Args of the constructor:
        golden: reads files of golden requests, by their names.
        records: reads a file of records.
        parse: reads the request of a record.
    """

    def __init__(self, golden: Mapping[str, Read], records: Records, parse: Parse) -> None:
        self._golden = golden
        self._records = records
        self._parse = parse

    def __call__(self, directory: Path) -> Iterator[Sample]:
        """Yield golden requests first, then records. Blocking."""
        # Golden ones first: readers take the first so many, and these say what to expect.
        for name, read in self._golden.items():
            yield from _readable(self._of_golden(directory / name, read))
        yield from _readable(self.of_records(directory / RECORDS))

    def of_file(self, path: Path) -> Iterator[Sample]:
        """Yield the requests of one file, of the kind that the end of its name says.

        Raises:
            InvalidRequest: the file is damaged.
            OSError: it cannot be read.
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
            OSError: it cannot be read.
        """
        with path.open("rb") as file:
            for number, (kind, request) in enumerate(islice(self._records(file), MOST_RECORDS)):
                if kind == PREDICT:
                    yield Sample(f"record {number} of {path.name}", self._parse(request))


def _readable(samples: Iterable[Sample]) -> Iterator[Sample]:
    with suppress(OSError, ServingError):
        yield from samples
