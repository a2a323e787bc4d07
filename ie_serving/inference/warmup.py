"""The Predict requests in a version's directory, and their replay before the version serves.

Source: `assets.extra/tf_serving_warmup_requests`, a TFRecord file of PredictionLog, as in
TensorFlow Serving. There a bad record fails the load. Here a bad record is logged and the next one
is replayed: a bad recording does not keep a working version from serving, and a signature that is
left out does not keep the others cold.

Before that the choices at load, such as that of the precision, take the requests of these files as
samples (`RecordedRequests`). An unreadable file yields no samples: the later step that replays the
file logs the error or refuses the version.

A file of golden requests is read one request at a time, so that memory holds only one. Such a file
has to be usable if it exists: a directory, an empty file or one with too many requests is an error,
since otherwise a version that the file should refuse would serve.
"""

import asyncio
import logging
import stat
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ie_serving.core.runtime.threads import in_own_thread
from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotSupported,
    ServingError,
)
from ie_serving.core.values.requests import GoldenRequest, InferRequest, SampleRequest
from ie_serving.inference.deadline import limited
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)
RECORDS = Path("assets.extra") / "tf_serving_warmup_requests"
MOST_RECORDS = 1000
"""Most records of one file, as in TensorFlow Serving; a file with more is not replayed."""

LONGEST_REPLAY_S = 60.0
"""Seconds that one recorded request may take. A longer one ends the warm-up, and the version serves
without the rest, so that a recording cannot block a version."""

LONGEST_READ_S = 60.0
"""Seconds that the file may take to be read; a mount that does not answer must not block a version
either."""

Records = Callable[[BinaryIO], Iterator[tuple[str, bytes]]]
"""Reads a file of records: kind and serialized request of each. Raises InvalidRequest."""

Replay = Callable[[Servable, bytes], Coroutine[Any, Any, object]]
"""Runs one serialized recorded request on a servable that does not serve yet."""

MOST_REQUESTS = 10_000
"""Most golden requests of one file; more are refused. At 1 ms each they delay a version by 10 s."""
ReadRecords = Callable[[BinaryIO], Iterable[GoldenRequest]]
"""Reads a file. Raises InvalidRequest."""
PREDICT = "predict_log"
"""Kind of the records that hold a Predict; other kinds (Classify, Regress ...) are skipped."""
ParseRecord = Callable[[bytes], InferRequest]
"""Reads a serialized PredictRequest. Raises InvalidRequest."""


class WarmUp:
    """Replays every record `iterations` times.

    Args of the constructor:
        records: reads the file.
        replays: functions by kind of record, `predict_log` and so on.
        iterations: number of times that each record is replayed; 0 replays none.
    """

    def __init__(self, records: Records, replays: Mapping[str, Replay], iterations: int) -> None:
        self._records = records
        self._replays = replays
        self._iterations = iterations

    async def __call__(self, servable: Servable, directory: Path) -> None:
        """Warm up `servable` from the files in `directory`. A bad record is logged, not raised."""
        if self._iterations == 0:
            return
        name, version = servable.name, servable.version
        try:
            recorded = await in_own_thread(LONGEST_READ_S, partial(self._read, directory / RECORDS))
            if recorded is None:
                return
            replayed = [await self._replayed(servable, *each) for each in enumerate(recorded)]
        # Any other error is a defect: it fails the load, so that it is noticed.
        except (ServingError, OSError) as error:
            log.error(Event("warm-up stopped", model=name, version=version, cause=error))
            return
        records = sum(replayed)
        log.info(Event("warm-up replayed", model=name, version=version, records=records))

    async def _replayed(self, servable: Servable, number: int, record: tuple[str, bytes]) -> bool:
        """Replay a record; if the record is bad, log that and return False.

        Raises:
            DeadlineExceeded: the record takes too long.
        """
        try:
            for _ in range(self._iterations):
                # The loop yields before each record, also after a bad one: inference on the event
                # loop does not yield to other tasks.
                await asyncio.sleep(0)
                await self._replay(servable, *record)
        except DeadlineExceeded:
            raise
        except ServingError as error:
            log.error(
                Event(
                    "warm-up record refused",
                    model=servable.name,
                    version=servable.version,
                    record=number,
                    cause=error,
                )
            )
            return False
        return True

    async def _replay(self, servable: Servable, kind: str, request: bytes) -> None:
        replay = self._replays.get(kind)
        if replay is None:
            raise NotSupported(f"Unsupported log_type for warmup: {kind}")
        await limited(LONGEST_REPLAY_S, replay(servable, request))

    def _read(self, path: Path) -> list[tuple[str, bytes]] | None:
        """Read all records; None where there is no file. Raises: InvalidRequest, OSError."""
        if not path.is_file():
            return None
        with path.open("rb") as file:
            found = list(islice(self._records(file), MOST_RECORDS + 1))
        if len(found) > MOST_RECORDS:
            raise InvalidRequest(
                f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) at {path}"
            )
        return found


def golden_requests(path: Path, read: ReadRecords) -> Iterator[GoldenRequest]:
    """Yield the requests of one file. Blocking.

    Raises:
        InvalidRequest: not a regular file, damaged, empty, or with more than `MOST_REQUESTS`.
        OSError: the file cannot be read.
    """
    # Checked before opening: to open a pipe blocks until another process writes to it.
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidRequest("it is no regular file: replace it by one")
    count = 0
    with path.open("rb") as file:
        for golden in read(file):
            count += 1
            if count > MOST_REQUESTS:
                raise InvalidRequest(f"it has more than {MOST_REQUESTS} requests: keep the best")
            yield golden
    if not count:
        raise InvalidRequest("it has no requests: add some, or remove the file")


class RecordedRequests:
    """Yields the samples of a version directory.

    Args of the constructor:
        golden: readers of golden requests, by file name.
        records: reads a file of records.
        parse: reads the request of a record.
    """

    def __init__(
        self, golden: Mapping[str, ReadRecords], records: Records, parse: ParseRecord
    ) -> None:
        self._golden = golden
        self._records = records
        self._parse = parse

    def __call__(self, directory: Path) -> Iterator[SampleRequest]:
        """Yield golden requests first, then records. Blocking."""
        # Golden ones first: callers take only the first few, and these have expected outputs.
        for name, read in self._golden.items():
            yield from _readable(directory / name, self._of_golden(directory / name, read))
        if (directory / RECORDS).is_file():  # to open a pipe would block
            yield from _readable(directory / RECORDS, self.of_records(directory / RECORDS))

    def of_file(self, path: Path) -> Iterator[SampleRequest]:
        """Yield the requests of one file; the suffix of its name selects the reader.

        Raises:
            InvalidRequest: the file is damaged.
            OSError: the file cannot be read.
        """
        of_json = next((r for name, r in self._golden.items() if name.endswith(".json")), None)
        if path.suffix == ".json" and of_json:
            return self._of_golden(path, of_json)
        return self.of_records(path)

    def _of_golden(self, path: Path, read: ReadRecords) -> Iterator[SampleRequest]:
        for golden in golden_requests(path, read):
            yield SampleRequest(f"{golden.source} of {path.name}", golden.request, golden)

    def of_records(self, path: Path) -> Iterator[SampleRequest]:
        """Yield the Predicts of a file of records.

        Raises:
            InvalidRequest: the file is damaged.
            OSError: the file cannot be read.
        """
        with path.open("rb") as file:
            for number, (kind, request) in enumerate(islice(self._records(file), MOST_RECORDS)):
                if kind == PREDICT:
                    yield SampleRequest(f"record {number} of {path.name}", self._parse(request))


def _readable(path: Path, samples: Iterable[SampleRequest]) -> Iterator[SampleRequest]:
    """Yield the samples before the first that cannot be read."""
    try:
        yield from samples
    except FileNotFoundError:  # most versions have no such file
        return
    except (OSError, ServingError) as error:
        log.warning(Event("requests for a trial not read", path=path, cause=error))
