"""Replays a version's recorded requests before it serves.

Source: `assets.extra/tf_serving_warmup_requests`, a TFRecord file of PredictionLog, as in
TensorFlow Serving. There a bad record fails the load. Here a bad record is logged and the next one
is replayed: a bad recording does not keep a working version from serving, and a signature that is
left out does not keep the others cold.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotSupported,
    ServingError,
)
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

Records = Callable[[BinaryIO], Iterator[tuple[str, bytes]]]
"""Reads a file of records: kind and serialized request of each. Raises InvalidRequest."""

Replay = Callable[[Servable, bytes], Coroutine[Any, Any, object]]
"""Runs one serialized recorded request on a servable that does not serve yet."""


class WarmUp:
    """Replays every record `iterations` times.

    Args of the constructor:
        records: reads the file.
        replays: by kind of record, `predict_log` and so on.
        iterations: how often each record is replayed; 0 replays none.
    """

    def __init__(self, records: Records, replays: Mapping[str, Replay], iterations: int) -> None:
        self._records = records
        self._replays = replays
        self._iterations = iterations

    async def __call__(self, servable: Servable, directory: Path) -> None:
        """Warm up `servable` from the files in `directory`. A bad record is logged, not raised."""
        path = directory / RECORDS
        if self._iterations == 0 or not path.is_file():
            return
        name, version = servable.name, servable.version
        try:
            recorded = await asyncio.to_thread(self._read, path)
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
                # Before each record, so also after a bad one: inference on the event loop does not
                # yield to other tasks.
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

    def _read(self, path: Path) -> list[tuple[str, bytes]]:
        with path.open("rb") as file:
            found = list(islice(self._records(file), MOST_RECORDS + 1))
        if len(found) > MOST_RECORDS:
            raise InvalidRequest(
                f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) at {path}"
            )
        return found
